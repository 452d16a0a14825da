"""Names in client certificates, as Java writes them, and what rules make of them."""

from __future__ import annotations

import datetime
import random
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import NameAttribute, NameOID

from drumlin.broker.login.certificates.mapping_rules import MappingRules, NoRule
from drumlin.broker.login.certificates.names import distinguished_name
from rig.jvm.jars import java

_JAVA = """
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
public class Names {
    public static void main(String[] names) throws Exception {
        var out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String each : names) {
            out.print(new X500Principal(HexFormat.of().parseHex(each)).getName() + "\\0");
        }
    }
}
"""
_ATTRIBUTES = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.USER_ID,
    NameOID.DOMAIN_COMPONENT,
    NameOID.EMAIL_ADDRESS,
    NameOID.SERIAL_NUMBER,
    NameOID.TITLE,
)
#: Their values are not of any characters.
_NARROW = (NameOID.EMAIL_ADDRESS, NameOID.SERIAL_NUMBER, NameOID.DOMAIN_COMPONENT)
_KEY = ed25519.Ed25519PrivateKey.generate()


def _certificate(name: x509.Name) -> bytes:
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(_KEY.public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(2036, 1, 1, tzinfo=datetime.UTC))
    )
    return builder.sign(_KEY, None).public_bytes(Encoding.DER)


def _name(*parts: tuple[x509.ObjectIdentifier, str]) -> bytes:
    return _certificate(x509.Name([NameAttribute(*each) for each in parts]))


def test_the_most_specific_part_comes_first() -> None:
    parts = (NameOID.ORGANIZATION_NAME, "O"), (NameOID.COMMON_NAME, "alice")
    assert distinguished_name(_name(*parts)) == "CN=alice,O=O"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a,b", r"a\,b"),
        (' "a"+b= ', r"\ \"a\"\+b\=\ "),
        ("#a;<b>\\", "\\#a\\;\\<b\\>\\\\"),
        ("Zoë", "Zoë"),
    ],
)
def test_what_is_escaped(text: str, written: str) -> None:
    assert distinguished_name(_name((NameOID.COMMON_NAME, text))) == f"CN={written}"


def test_attributes_that_java_has_no_word_for() -> None:
    parts = (NameOID.EMAIL_ADDRESS, "a@b.c"), (NameOID.COMMON_NAME, "a")
    found = distinguished_name(_name(*parts))
    assert found == "CN=a,1.2.840.113549.1.9.1=#16056140622e63"


@pytest.mark.deep
def test_as_java_writes_them(tmp_path: Path) -> None:
    chance = random.Random(3)
    characters = ' ,=+<>#;"\\abZ09ü€\x01\n\t\x7f'
    names = []
    for _ in range(300):
        parts = []
        for _ in range(chance.randint(1, 4)):
            kinds = chance.sample(_ATTRIBUTES, chance.choice([1, 1, 2]))
            attributes = []
            for kind in kinds:
                possible = "ab9" if kind in _NARROW else characters
                text = "".join(chance.choices(possible, k=chance.randint(1, 6)))
                attributes.append(NameAttribute(kind, text))
            parts.append(x509.RelativeDistinguishedName(attributes))
        names.append(x509.Name(parts))
    source = tmp_path / "Names.java"
    source.write_text(_JAVA)
    encoded = [each.public_bytes().hex() for each in names]
    done = subprocess.run([java(), str(source), *encoded], capture_output=True, check=True)
    written = done.stdout.decode().split("\0")[:-1]
    assert [distinguished_name(_certificate(each)) for each in names] == written


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("", "CN=a", "CN=a"),
        ("RULE:^CN=(.*?),OU=(.*?)$/$1@$2/", "CN=a,OU=b", "a@b"),
        ("RULE:^CN=(.*?),.*$/$1/L", "CN=Alice,OU=b", "alice"),
        ("RULE:^CN=(.*?),.*$/$1/U , DEFAULT", "CN=Alice,OU=b", "ALICE"),
        ("RULE:^OU=.*$/x/,RULE:^CN=(.*)$/$1/", "CN=a", "a"),
        ("RULE:^OU=.*$/x/,DEFAULT", "CN=a", "CN=a"),
        ("RULE:^CN=(a)(b)?.*$/$1$2$3/", "CN=ac", "a$3"),
        (r"RULE:^CN=(\w+)\/.*$/$1\/x/", "CN=a/b", "a/x"),
    ],
)
def test_rules(rules: str, name: str, mapped: str) -> None:
    assert MappingRules(rules).name(name) == mapped


def test_a_name_without_a_rule() -> None:
    with pytest.raises(NoRule):
        MappingRules("RULE:^OU=.*$/x/").name("CN=a")


@pytest.mark.parametrize("rules", ["RULE:x", "RULE:(/x/", "default", "RULE:a/b/X", "RULE:(?=a)/b/"])
def test_what_is_no_rule(rules: str) -> None:
    with pytest.raises(ValueError, match=r"no rule begins with|no pattern of RE2"):
        MappingRules(rules)
