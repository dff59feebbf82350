//! The admission policy that forbids pods to read their owner references (R57, R59, R60), as text to
//! apply. Whether a cluster acts on such policies is not known here.

use alloc::string::String;

/// The policy and its binding, as YAML; a strict one also refuses files that show every annotation.
///
/// It looks at both spellings, in variables of every list of containers and in both kinds of volumes,
/// of Pods and of every kind with a template. What was stored before stays valid.
#[must_use]
pub fn owner_references(strict: bool) -> String {
    let whole = if strict { ", 'metadata.annotations'" } else { "" };
    POLICY.replace("@WHOLE@", whole)
}

const POLICY: &str = r#"# Pods in namespaces with the label downward.tenure.dev/owner-references=forbid
# may not read their owner references, in either spelling.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: downward-owner-references.tenure.dev
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: [""]
      apiVersions: ["v1"]
      operations: ["CREATE", "UPDATE"]
      resources: ["pods", "pods/ephemeralcontainers", "podtemplates", "replicationcontrollers"]
    - apiGroups: ["apps"]
      apiVersions: ["v1"]
      operations: ["CREATE", "UPDATE"]
      resources: ["daemonsets", "deployments", "replicasets", "statefulsets"]
    - apiGroups: ["batch"]
      apiVersions: ["v1"]
      operations: ["CREATE", "UPDATE"]
      resources: ["cronjobs", "jobs"]
  variables:
  - name: forbidden
    expression: >-
      ['metadata.ownerReferences', "metadata.annotations['tenure.dev/owner-references']"@WHOLE@]
  - name: specs
    expression: >-
      ([dyn(object)] + (oldObject == null ? [] : [dyn(oldObject)])).map(o,
        request.kind.kind == 'Pod' ? o.spec
        : request.kind.kind == 'PodTemplate' ? o.template.spec
        : request.kind.kind == 'CronJob' ? o.spec.jobTemplate.spec.template.spec
        : o.spec.template.spec)
  - name: uses
    expression: >-
      variables.specs.map(s,
        (s.containers
          + (has(s.initContainers) ? s.initContainers : [])
          + (has(s.ephemeralContainers) ? s.ephemeralContainers : [])
        ).exists(c, has(c.env) && c.env.exists(e,
          has(e.valueFrom) && has(e.valueFrom.fieldRef)
          && e.valueFrom.fieldRef.fieldPath in variables.forbidden))
        || (has(s.volumes) && s.volumes.exists(v,
          (has(v.downwardAPI) && has(v.downwardAPI.items) && v.downwardAPI.items.exists(i,
            has(i.fieldRef) && i.fieldRef.fieldPath in variables.forbidden))
          || (has(v.projected) && has(v.projected.sources) && v.projected.sources.exists(p,
            has(p.downwardAPI) && has(p.downwardAPI.items) && p.downwardAPI.items.exists(i,
              has(i.fieldRef) && i.fieldRef.fieldPath in variables.forbidden))))))
  validations:
  - expression: >-
      !variables.uses[0] || (size(variables.uses) > 1 && variables.uses[1])
    reason: Forbidden
    message: >-
      pods may not read their owner references in this namespace
      (label downward.tenure.dev/owner-references=forbid)
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: downward-owner-references.tenure.dev
spec:
  policyName: downward-owner-references.tenure.dev
  validationActions: [Deny]
  matchResources:
    namespaceSelector:
      matchLabels:
        downward.tenure.dev/owner-references: forbid
"#;
