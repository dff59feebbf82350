//! Rows of the groups about traffic: networking, discovery.

use tenure_machinery::kind::{Kind, NameRule, StatusMeta};

use super::row::{KindBuilder, row};
use crate::endpoint_slice::EndpointSliceRules;
use crate::ingress::{IngressClassRules, IngressRules};
use crate::ip_address::{IpAddressRules, ServiceCidrRules};
use crate::network_policy::NetworkPolicyRules;

const NETWORKING: (&str, &str) = ("networking.k8s.io", "v1");
const DISCOVERY: (&str, &str) = ("discovery.k8s.io", "v1");

/// `networking.k8s.io`.
pub(super) fn networking() -> Vec<Kind> {
    let rows = [
        row(
            NETWORKING,
            "IngressClass",
            "ingressclasses",
            "api.networking.v1.IngressClass",
            IngressClassRules,
        )
        .acted_on_by("the ingress controllers that you run")
        .cluster()
        .counted(),
        row(NETWORKING, "Ingress", "ingresses", "api.networking.v1.Ingress", IngressRules)
            .acted_on_by("the ingress controllers that you run")
            .short(&["ing"])
            .stored_at("ingress")
            .counted()
            .status("Ingress", StatusMeta::Open),
        row(NETWORKING, "IPAddress", "ipaddresses", "api.networking.v1.IPAddress", IpAddressRules)
            .acted_on_by("the server, which gives addresses to Services")
            .named(NameRule::PathSegment)
            .cluster()
            .short(&["ip"]),
        row(
            NETWORKING,
            "NetworkPolicy",
            "networkpolicies",
            "api.networking.v1.NetworkPolicy",
            NetworkPolicyRules,
        )
        .ignored("no traffic is filtered by it")
        .short(&["netpol"])
        .counted(),
        row(
            NETWORKING,
            "ServiceCIDR",
            "servicecidrs",
            "api.networking.v1.ServiceCIDR",
            ServiceCidrRules,
        )
        .acted_on_by(
            "the server, which gives addresses to Services, and the controller of ServiceCIDRs",
        )
        .cluster()
        .status("ServiceCIDR", StatusMeta::Frozen),
    ];
    rows.into_iter().map(KindBuilder::done).collect()
}

/// `discovery.k8s.io`.
pub(super) fn discovery() -> Vec<Kind> {
    vec![
        row(
            DISCOVERY,
            "EndpointSlice",
            "endpointslices",
            "api.discovery.v1.EndpointSlice",
            EndpointSliceRules,
        )
        .acted_on_by("the proxy of the server")
        .counted()
        .done(),
    ]
}
