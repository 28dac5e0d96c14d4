"""Who may do what in Elasticsearch: the roles of the stack's users, and how another cluster gets them.

The local node reads roles and users from files that `services.node` writes; a cluster of docker-compose.yml gets the
same ones through the security API, by `create`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.elastic import Elastic, ElasticUser

KIBANA_SERVER = "kibana_system"
"""Elasticsearch's own user for Kibana's server: only its password is ours."""
KIBANA_SETUP = "kibana_setup"
"""Imports the saved objects."""
OWNER = "owner"
"""Signs in to Kibana: reads all that the stack has, and keeps dashboards there."""


def roles(index_prefix: str) -> dict[str, dict[str, Any]]:
    """The roles of the stack, one a user, in the words of the security API."""
    ours = [f"{index_prefix}*"]
    logs = [f"{index_prefix}*crawl-log*", f"{index_prefix}*queries*"]  # a longer prefix of the same stack too
    return {
        ElasticUser.READER: {
            "cluster": ["monitor", "cluster:admin/analyze"],
            "indices": [{"names": ours, "privileges": ["read", "view_index_metadata", "indices:admin/analyze"]}],
        },
        ElasticUser.WRITER: {
            "cluster": ["monitor", "manage_index_templates", "cluster:admin/analyze"],
            "indices": [{"names": ours, "privileges": ["all"]}],
        },
        ElasticUser.APPENDER: {
            "cluster": ["monitor"],
            "indices": [{"names": logs, "privileges": ["create_doc", "view_index_metadata"]}],
        },
    }


def create(superuser: Elastic, passwords: Mapping[str, str]) -> None:
    """Make the roles, and the users whose passwords are given; doing it again changes nothing.

    Raises SearchUnavailable or SearchRefused.
    """
    for name, privileges in roles(superuser.prefix).items():
        superuser.put_role(name, privileges)
    granted = {user.value: [user.value] for user in ElasticUser} | {
        KIBANA_SETUP: ["kibana_admin", ElasticUser.READER.value],
        OWNER: ["kibana_admin", ElasticUser.READER.value],
    }
    for name, password in passwords.items():
        if name == KIBANA_SERVER:
            superuser.set_password(name, password)
        else:
            superuser.put_user(name, password, granted[name])
