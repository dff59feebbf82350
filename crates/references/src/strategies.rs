//! Ready strategies for common APIs (spec section 13). They are YAML with comments, to be read before they are
//! applied; none is in force until somebody does so.

/// Strategies that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Its name, as `--for` takes it and the label [`LABEL`] has it.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// The text of the file.
    pub text: &'static str,
}

/// The label of every bundled strategy.
pub const LABEL: &str = "reference.tenure.dev/bundle";

/// The annotation of a strategy that reads Secrets of every class, and is installed only when asked for.
pub const UNPARTITIONED: &str = "reference.tenure.dev/unpartitioned";

/// Every bundle.
pub const BUNDLES: [Bundle; 6] = [
    Bundle {
        name: "gateway-api",
        about: "Gateways, ListenerSets, routes and BackendTLSPolicies",
        text: include_str!("../strategies/gateway-api.yaml"),
    },
    Bundle {
        name: "ingress",
        about: "certificates and backends of Ingresses",
        text: include_str!("../strategies/ingress.yaml"),
    },
    Bundle {
        name: "ingress-nginx-annotations",
        about: "Secrets that annotations of ingress-nginx name",
        text: include_str!("../strategies/ingress-nginx-annotations.yaml"),
    },
    Bundle {
        name: "volumes",
        about: "what PersistentVolumeClaims are filled from",
        text: include_str!("../strategies/volumes.yaml"),
    },
    Bundle {
        name: "cert-manager",
        about: "Certificates and Issuers of cert-manager",
        text: include_str!("../strategies/cert-manager.yaml"),
    },
    Bundle {
        name: "flux",
        about: "sources, HelmReleases and Kustomizations of Flux",
        text: include_str!("../strategies/flux.yaml"),
    },
];

/// The purposes that bundled strategies use, and others should.
pub const PURPOSES: [&str; 12] = [
    "tls-serving",
    "tls-client-validation",
    "tls-client-certificate",
    "ca-bundle",
    "backend",
    "parameters",
    "data-source",
    "credentials",
    "source",
    "values",
    "keystore-password",
    "issuer",
];

/// The bundle of a name.
#[must_use]
pub fn bundle(name: &str) -> Option<&'static Bundle> {
    BUNDLES.iter().find(|bundle| bundle.name == name)
}

impl Bundle {
    /// Its documents, each with its comments, one strategy each.
    pub fn documents(&self) -> impl Iterator<Item = &'static str> {
        documents(self.text)
    }
}

/// The documents of a YAML text that hold anything but comments.
pub fn documents(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            // Indented, such a line is text of a document.
            if line.trim_end() == "---" || line.starts_with("--- ") {
                let (document, after) = text.split_at(at);
                rest = after.split_once('\n').map(|(_, after)| after);
                return Some(document);
            }
            at += line.len();
        }
        rest = None;
        Some(text)
    })
    .filter(|document| {
        document.lines().any(|line| !line.trim().is_empty() && !line.trim().starts_with('#'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_taken_apart_at_lines_of_dashes() {
        let all = |text| documents(text).collect::<Vec<_>>();
        assert_eq!(all("# only words\n---\na: 1\n---\nb: 2\n"), ["a: 1\n", "b: 2\n"]);
        assert_eq!(all("a: |\n  ---\n  x\n"), ["a: |\n  ---\n  x\n"]);
        assert_eq!(all("a: 1\n---\n# end\n---"), ["a: 1\n"]);
        assert!(all("").is_empty());
    }

    #[test]
    fn every_bundle_says_whose_it_is() {
        for bundle in BUNDLES {
            for document in bundle.documents() {
                assert!(document.contains(&format!("{LABEL}: {}\n", bundle.name)), "{document}");
            }
        }
    }
}
