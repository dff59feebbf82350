//! A custom kind for the tests of this folder: its definition, an object of it, and what a server
//! needs before they can be used.

use super::Kubectl;
use super::version::Writable;

pub(crate) const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.harbour.example}
spec:
  group: harbour.example
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, shortNames: [bt], categories: [fleet]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale:
        specReplicasPath: .spec.crew
        statusReplicasPath: .status.aboard
        labelSelectorPath: .status.selector
    additionalPrinterColumns:
    - {name: Port, type: string, jsonPath: .spec.port}
    - {name: Crew, type: integer, jsonPath: .spec.crew}
    - {name: Built, type: date, jsonPath: .spec.built}
    - {name: Phase, type: string, jsonPath: .status.phase, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        description: Boat is a thing that floats.
        type: object
        properties:
          spec:
            description: What the boat should be.
            type: object
            required: [port]
            x-kubernetes-validations:
            - {rule: "self.crew <= self.berths", message: the crew must fit}
            properties:
              port: {type: string, description: Where it lies., minLength: 2}
              crew: {type: integer, format: int32, minimum: 0, default: 1}
              berths: {type: integer, maximum: 100, default: 8}
              built: {type: string, format: date-time}
              cargo:
                description: What it carries.
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    tons: {type: integer}
          status:
            type: object
            properties:
              phase: {type: string}
              aboard: {type: integer}
              selector: {type: string}
"#;

/// A boat with these fields of its spec, in one line.
pub(crate) fn boat(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: harbour.example/v1\nkind: Boat\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )
}

/// How the status of a boat is written.
pub(crate) const BOATS: Writable<'_> = Writable {
    resource: "boats",
    shown: "boat.harbour.example",
    path: "/apis/harbour.example/v1/namespaces/shop/boats",
};

impl Kubectl {
    /// Starts a server on which boats are served.
    pub(crate) fn harbour() -> Kubectl {
        let kubectl = Kubectl::start();
        kubectl.define();
        kubectl
    }

    /// Defines the kind and waits until it is served.
    pub(crate) fn define(&self) {
        let shown = "customresourcedefinition.apiextensions.k8s.io/boats.harbour.example";
        let said = self.feed(&["apply", "--filename", "-"], DEFINITION);
        assert_eq!(said, format!("{shown} created\n"));
        let wait = ["wait", "crd/boats.harbour.example", "--for=condition=Established"];
        assert_eq!(self.ok(&wait), format!("{shown} condition met\n"));
    }
}
