"""Security of connections to a cluster: the values for `drumlin.connect(security=...)`.

security = Security(tls=Tls(ca="ca.pem"), login=Scram("user", "password"))
"""

from drumlin.peer.security.security import Security
from drumlin.peer.security.settings import OAuthBearer, Plain, Scram, SecurityOptionError, Tls

__all__ = ["OAuthBearer", "Plain", "Scram", "Security", "SecurityOptionError", "Tls"]
