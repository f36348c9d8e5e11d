"""What all sessions of a gateway share."""

from dataclasses import dataclass

from gateway.nodes.http import NodeHttp
from gateway.nodes.node_set import NodeSet
from sowline.serving.result import QueryLimits


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """The nodes, the HTTP client of the nodes, and the limits of a query."""

    nodes: NodeSet
    http: NodeHttp
    limits: QueryLimits
