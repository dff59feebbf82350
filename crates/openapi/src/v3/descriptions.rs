//! Sentences about Tenure's own types and members, and about what every object has, as `kubectl explain` shows
//! them. Types of others have none: the table holds no sentences of theirs.

use tenure_schema::{ApiType, Field};

/// The types of referential authorization.
const REFERENCE: &str = "dev.tenure.api.reference.v1alpha1.";

/// What a type is for.
pub(super) fn of_type(entry: &ApiType) -> Option<&'static str> {
    Some(match entry.name.strip_prefix(REFERENCE)? {
        "ClassSelector" => {
            "ClassSelector chooses classes by the controller that their objects name."
        }
        "ClusterReferenceConsumer" => {
            "ClusterReferenceConsumer says who follows which references: its subject may get, list and watch, by \
             name, exactly the targets that origins of its classes refer to."
        }
        "ConsumerReference" => {
            "ConsumerReference is one kind of reference that a consumer follows."
        }
        "GrantOrigin" => {
            "GrantOrigin says which objects of another namespace may refer to the targets."
        }
        "GrantTarget" => {
            "GrantTarget names the objects of the grant's own namespace that may be referred to."
        }
        "GroupResource" => "GroupResource names a resource, whatever its version.",
        "ReferenceGrant" => {
            "ReferenceGrant lets objects of another namespace refer to objects of its own. Without one, references \
             across namespaces give nobody anything to read."
        }
        "ReferencePath" => "ReferencePath is one place in an origin where references stand.",
        "ReferenceReview" => {
            "ReferenceReview asks whether a particular reference is allowed, and by what. It is answered, never \
             stored."
        }
        "ReferenceReviewGrant" => "ReferenceReviewGrant is a grant that allows the reference.",
        "ReferenceReviewNearest" => {
            "ReferenceReviewNearest is the object that would have allowed the reference but for one of its fields."
        }
        "ReferenceReviewObject" => {
            "ReferenceReviewObject is one end of the reference that is asked about."
        }
        "ReferenceReviewSpec" => "ReferenceReviewSpec is the question.",
        "ReferenceReviewStatus" => "ReferenceReviewStatus is the answer.",
        "ReferenceStrategy" => {
            "ReferenceStrategy says where in objects of one resource references to other objects stand. Without a \
             strategy the server sees no reference in them."
        }
        "Subject" => "Subject is a user, a group or a service account.",
        "VersionedReferencePaths" => {
            "VersionedReferencePaths says where references stand in one version of the origin's resource."
        }
        _ => return None,
    })
}

/// What the members are for that every object has. Clients look for the first words.
pub(super) fn of_every_object(member: &str) -> Option<&'static str> {
    Some(match member {
        "apiVersion" => "APIVersion defines the group and the version in which this is written.",
        "kind" => "Kind is the name of what this describes, as its group spells it.",
        "metadata" => "Standard object's metadata: its name, its labels, who owns it.",
        _ => return None,
    })
}

/// What a member is for.
pub(super) fn of_member(parent: &ApiType, field: &Field) -> Option<&'static str> {
    if let ("api.core.v1.ConfigMap" | "api.core.v1.Secret", "controllersAsOwners") =
        (parent.name, field.json)
    {
        return Some(
            "Whether the revisions of workloads that mention this object become its owners, so that it is \
             collected with the last of them. May be set only at creation. A field of Tenure; see \
             spec/retention.md.",
        );
    }
    if let ("apimachinery.meta.v1.ObjectMeta", "creationTimestamp") = (parent.name, field.json) {
        return Some("CreationTimestamp is a timestamp of the server: when it made the object.");
    }
    let parent = parent.name.strip_prefix(REFERENCE)?;
    Some(match (parent, field.json) {
        (_, "apiVersion") => "The group and version in which this object is written.",
        (_, "kind") if parent.starts_with("Reference") || parent.starts_with("Cluster") => {
            match parent {
                "ReferenceReviewNearest" => "The kind of that object.",
                _ => "The kind of this object.",
            }
        }
        (_, "metadata") => "What every object has: name, labels, owners.",

        ("ClassSelector", "controllerName") => "The controller whose classes are chosen.",
        ("ClassSelector", "controllerPath") => {
            "Where a class object names its controller, such as `.spec.controller`."
        }
        ("ClusterReferenceConsumer", "classSelector") => {
            "Classes chosen by their controller, besides those of classNames. Needs the feature gate \
             ConsumerClassSelector."
        }
        ("ClusterReferenceConsumer", "classNames") => {
            "The classes whose origins are followed, at most 64. `*` is every class that is set, the empty name \
             every origin without a class. Without any, origins that have classes are not followed."
        }
        ("ClusterReferenceConsumer", "references") => "The references that are followed, 1 to 64.",
        ("ClusterReferenceConsumer", "subject") => "Who reads the targets.",

        ("ConsumerReference", "origin") => "The resource in which the references stand.",
        ("ConsumerReference", "purpose") => {
            "What the references are for, as the strategy says: a label of at most 63 characters."
        }
        ("ConsumerReference", "target") => "The resource to which they refer.",

        ("GrantOrigin", "namespace") => {
            "The namespace of the origins. Left out for origins that have none, and beside namespaceSelector."
        }
        ("GrantOrigin", "namespaceSelector") => {
            "The labels of the origins' namespaces, instead of one namespace; the empty selector is every \
             namespace. Needs the feature gate GrantNamespaceSelector."
        }
        (
            "ClassSelector"
            | "GrantOrigin"
            | "GrantTarget"
            | "GroupResource"
            | "ReferenceReviewObject",
            "group",
        ) => "The API group; the empty text is the core group.",
        (
            "ClassSelector"
            | "GrantOrigin"
            | "GrantTarget"
            | "GroupResource"
            | "ReferenceReviewObject",
            "resource",
        ) => "The resource's plural name in lower case, such as `secrets`.",
        ("GrantTarget", "names") => {
            "The names of the objects, at most 16. Without names nothing is granted, and there is no wildcard."
        }

        ("ReferenceGrant", "origin") => "Whose references are allowed.",
        ("ReferenceGrant", "purpose") => {
            "What the references may be for: a label of at most 63 characters."
        }
        ("ReferenceGrant", "target") => "The objects of this namespace that may be referred to.",

        ("ReferencePath", "allowClusterScopedTarget") => {
            "Whether the targets may be objects without a namespace."
        }
        ("ReferencePath", "expression") => {
            "A CEL expression over the origin instead of a path, at most 4096 bytes; it yields names or references."
        }
        ("ReferencePath", "namespacePath") => {
            "Where the target's namespace stands, if not beside the name. At most 1024 bytes."
        }
        ("ReferencePath", "path") => {
            "Where the references stand: a JSONPath of at most 1024 bytes to names, or to objects with `name` and, \
             for other namespaces, `namespace`."
        }
        ("ReferencePath", "purpose") => {
            "What the references are for: a label of at most 63 characters."
        }
        ("ReferencePath", "target") => "The resource to which they refer.",

        ("ReferenceReview", "spec") => "The question.",
        ("ReferenceReview", "status") => "The answer, set by the server.",
        ("ReferenceReviewGrant" | "ReferenceReviewNearest", "name") => "The object's name.",
        ("ReferenceReviewGrant" | "ReferenceReviewNearest", "namespace") => {
            "The object's namespace."
        }
        ("ReferenceReviewNearest", "field") => {
            "The field that keeps it from allowing the reference."
        }
        ("ReferenceReviewNearest", "found") => "What the field says.",
        ("ReferenceReviewNearest", "wanted") => "What it would have to say.",
        ("ReferenceReviewObject", "name") => "The object's name.",
        ("ReferenceReviewObject", "namespace") => "The object's namespace, if it has one.",
        ("ReferenceReviewSpec", "class") => {
            "The origin's class as the asker read it. Left out, classes are not checked."
        }
        ("ReferenceReviewSpec", "origin") => "The object that refers.",
        ("ReferenceReviewSpec", "purpose") => "What the reference is for.",
        ("ReferenceReviewSpec", "subject") => "Who would read the target; anybody, if left out.",
        ("ReferenceReviewSpec", "target") => "The object that is referred to.",
        ("ReferenceReviewStatus", "allowed") => "Whether the reference is allowed.",
        ("ReferenceReviewStatus", "code") => "Why not, as one word for programs.",
        ("ReferenceReviewStatus", "explanation") => {
            "The whole way to the answer; only for those who may read the objects it tells of."
        }
        ("ReferenceReviewStatus", "grants") => {
            "The grants that allow it; none within one namespace."
        }
        ("ReferenceReviewStatus", "nearest") => "What came closest to allowing it.",
        ("ReferenceReviewStatus", "observedResourceVersion") => "The state that was asked.",
        ("ReferenceReviewStatus", "reason") => "Why or why not, as a sentence for people.",
        ("ReferenceReviewStatus", "strategies") => "The strategies that found the reference.",

        ("ReferenceStrategy", "origin") => {
            "The resource in whose objects references stand. May not change."
        }
        ("ReferenceStrategy", "versions") => {
            "Where they stand, for each version of the resource; 1 to 16."
        }

        ("Subject", "kind") => "`User`, `Group` or `ServiceAccount`.",
        ("Subject", "name") => "The name of the user, the group or the service account.",
        ("Subject", "namespace") => "The namespace of a service account; no other subject has one.",

        ("VersionedReferencePaths", "classPath") => {
            "Where the origin's class stands: a path to one text, at most 1024 bytes."
        }
        ("VersionedReferencePaths", "references") => "The places of references, 1 to 64.",
        ("VersionedReferencePaths", "version") => "The version, such as `v1`.",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    //! Rules of spec/referential-authorization.md.

    use super::*;

    #[test]
    fn r4_every_type_and_member_of_the_group_is_explained() {
        let own =
            tenure_schema::facts().types().iter().filter(|entry| entry.name.starts_with(REFERENCE));
        let mut seen = 0;
        for entry in own {
            seen += 1;
            assert!(of_type(entry).is_some(), "{} is not explained", entry.name);
            for field in &entry.fields {
                assert!(
                    of_member(entry, field).is_some(),
                    "{} {} is not explained",
                    entry.name,
                    field.json
                );
            }
        }
        assert!(seen >= 16, "only {seen} types were found");
    }
}
