"""The exceptions of the services.

ServiceError
├── ConfigurationError   a setting, portal file or command is wrong; names the key and the right form
├── SearchUnavailable    Elasticsearch cannot be asked now (not reached, starting, overloaded)
├── SearchRefused        Elasticsearch understood the request and refused it
├── KibanaError          Kibana cannot be reached, or refuses our saved objects
├── NodeError            the local node could not be fetched, started or stopped
├── StackError           the stack on this machine could not be started, stopped or waited for
└── NotFound             no such site, run, user, URL
"""

from __future__ import annotations


class ServiceError(Exception):
    """Root; the message is one sentence that says what is wrong and what to do."""


class ConfigurationError(ServiceError):
    """A setting, portal file or command is wrong."""


class SearchUnavailable(ServiceError):
    """Elasticsearch cannot be asked now."""


class SearchRefused(ServiceError):
    """Elasticsearch understood the request and refused it: a fault of ours, or of its state."""


class KibanaError(ServiceError):
    """Kibana cannot be reached, or refuses our saved objects."""


class NodeError(ServiceError):
    """The local node could not be fetched, started or stopped."""


class StackError(ServiceError):
    """The stack on this machine could not be started, stopped or waited for."""


class NotFound(ServiceError):
    """No such site, run, user or URL."""
