"""`drumlin acls`: add, list, remove and check ACLs."""

from __future__ import annotations

from typing import Annotated, Any, Final

from drumlin.broker.rights.acls import Pattern, Permission
from drumlin.cli.access import acl_requests
from drumlin.cli.access.acl_options import (
    Clusters,
    Groups,
    Hosts,
    Operations,
    Principals,
    ResourceOptions,
    Tokens,
    Topics,
    TransactionalIds,
    Users,
    hosts_of,
    operations_of,
    principals_of,
)
from drumlin.cli.access.acl_words import as_row, in_words
from drumlin.cli.access.decision import decide
from drumlin.cli.reach.cluster import connect
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Group, Option
from drumlin.cli.terminal.options import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Yes,
    confirm,
    examples,
)

_EXIT_USAGE: Final = 2
_EXIT_DENIED: Final = 1
_COLUMNS: Final = ("kind", "name", "pattern", "principal", "permission", "operation", "host")

app: Final = Group(help="Add, list and remove ACLs; ask what they allow.")

Prefix = Annotated[bool, Option("--prefix", help="The names are prefixes of names.")]
Deny = Annotated[bool, Option("--deny", help="Deny it, whatever else allows it.")]


@app.add(
    epilog=examples(
        "drumlin acls add --user alice --operation read --topic orders --group billing",
        "drumlin acls add --user etl --operation write --operation create --topic raw. --prefix",
        "drumlin acls add --user mallory --operation all --topic '*' --deny",
        "drumlin acls add --user alice --operation describe --cluster",
    )
)
def add(
    operations: Operations,
    users: Users = None,
    principals: Principals = None,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    cluster: Clusters = False,
    tokens: Tokens = None,
    prefix: Prefix = False,
    deny: Deny = False,
    hosts: Hosts = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Allow users operations on topics, groups and more: every operation for every user.

    Read, write, delete and alter include describe.
    """
    resources = ResourceOptions(topics, groups, transactional_ids, cluster, tokens)
    wanted = resources.acls(
        principals_of(users, principals, is_needed=True),
        hosts_of(hosts) or ["*"],
        operations_of(operations),
        Pattern.PREFIXED if prefix else Pattern.LITERAL,
        Permission.DENY if deny else Permission.ALLOW,
    )
    with connect(bootstrap, command_config) as connected:
        acl_requests.create(connected, wanted)
    rows = [as_row(*each) for each in wanted]
    output.show_changes(rows, [f"added: {in_words(*each)}" for each in wanted], as_json)


@app.add(
    name="list",
    epilog=examples(
        "drumlin acls list",
        "drumlin acls list --user alice",
        "drumlin acls list --topic orders",
    ),
)
def list_acls(
    users: Users = None,
    principals: Principals = None,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    cluster: Clusters = False,
    tokens: Tokens = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List ACLs: all, those of users, or those that apply to resources.

    With names, the ACLs by prefix and for all names are listed, too.
    """
    resources = ResourceOptions(topics, groups, transactional_ids, cluster, tokens)
    filters = resources.filters(principals_of(users, principals), pattern=acl_requests.MATCH)
    with connect(bootstrap, command_config) as connected:
        found = acl_requests.find(connected, filters)
    rows = [as_row(*each) for each in found]
    output.show_rows(rows, _COLUMNS, as_json=as_json, empty="there are no such ACLs")


@app.add(
    epilog=examples(
        "drumlin acls remove --user alice --topic orders",
        "drumlin acls remove --user alice",
        "drumlin acls remove --topic raw. --prefix --operation write",
    )
)
def remove(
    operations: Operations = None,
    users: Users = None,
    principals: Principals = None,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    cluster: Clusters = False,
    tokens: Tokens = None,
    prefix: Prefix = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Remove the ACLs that match all given options; an option that is left out matches any."""
    resources = ResourceOptions(topics, groups, transactional_ids, cluster, tokens)
    named = principals_of(users, principals)
    if not (named or resources.are_given):
        raise output.Failure("say whose, or on what: --user, --topic, …", _EXIT_USAGE)
    filters = resources.filters(
        named,
        operations_of(operations),
        Pattern.PREFIXED if prefix else Pattern.LITERAL if resources.are_given else None,
    )
    with connect(bootstrap, command_config) as connected:
        found = acl_requests.find(connected, filters)
        if found:
            for each in found if not as_json else ():
                output.note(in_words(*each))
            confirm(f"Remove {output.counted(len(found), 'ACL')}?", yes)
            found = acl_requests.delete(connected, filters)
    rows = [as_row(*each) for each in found]
    sentences = [f"removed: {in_words(*each)}" for each in found]
    output.show_changes(rows, sentences or ["there are no such ACLs"], as_json)


@app.add(
    epilog=examples(
        "drumlin acls check --user alice --operation read --topic orders",
        "drumlin acls check --user alice --operation write --topic orders --host 192.0.2.7",
    )
)
def check(
    operations: Operations,
    users: Users = None,
    principals: Principals = None,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    cluster: Clusters = False,
    tokens: Tokens = None,
    host: Annotated[
        str | None,
        Option(
            "--host",
            metavar="ADDRESS",
            help="Where the user comes from. Default: an address that no ACL names.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> int:
    """Show whether users may do operations, and which rule decides; exit code 1 if they may not.

    The command decides by the ACLs and the settings of the cluster, as a broker does.
    """
    resources = ResourceOptions(topics, groups, transactional_ids, cluster, tokens)
    asked = resources.questions(
        principals_of(users, principals, is_needed=True), operations_of(operations)
    )
    where = hosts_of([host])[0] if host else ""
    with connect(bootstrap, command_config) as connected:
        decisions = [decide(connected, each, where) for each in asked]
    rows: list[dict[str, Any]] = [each.row() for each in decisions]
    output.show_changes(rows, [str(each) for each in decisions], as_json)
    return 0 if all(each.is_allowed for each in decisions) else _EXIT_DENIED
