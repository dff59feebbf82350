//! Feature gates: what can be switched on or off as a whole, by the names that Kubernetes uses. What a feature does is
//! decided elsewhere.

use std::str::FromStr;

/// One feature.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its name, such as `ControllersAsOwners`.
    pub name: &'static str,
    /// Whether it is on unless told otherwise.
    pub usual: bool,
    /// What it does, in one sentence.
    pub about: &'static str,
    set: fn(&mut Features, bool),
}

/// Every feature that can be switched.
pub const FEATURES: &[Feature] = &[
    Feature {
        name: "ControllersAsOwners",
        usual: true,
        about: "ConfigMaps and Secrets may opt in to being owned by the revisions that need them",
        set: |features, on| features.controllers_as_owners = on,
    },
    Feature {
        name: "DownwardAPIOwnerReferences",
        usual: true,
        about: "pods may read their owner references from variables and files",
        set: |features, on| features.downward_owner_references = on,
    },
    Feature {
        name: "DownwardAPIVolumeParity",
        usual: false,
        about: "files may show the fields of `spec` and `status` that variables may show",
        set: |features, on| features.downward_volume_parity = on,
    },
    Feature {
        name: "AtomicWriteVolumeUserFields",
        usual: false,
        about: "files of ConfigMaps, Secrets and the downward API may belong to a user",
        set: |features, on| features.volume_file_users = on,
    },
    Feature {
        name: "ReferenceFilteredLists",
        usual: false,
        about: "consumers of references may list and watch whole collections, and see what is referenced",
        set: |features, on| features.reference_filtered_lists = on,
    },
    Feature {
        name: "GrantNamespaceSelector",
        usual: false,
        about: "grants of references may select the namespaces of origins by labels",
        set: |features, on| features.grant_namespace_selector = on,
    },
    Feature {
        name: "ConsumerClassSelector",
        usual: false,
        about: "consumers of references may select classes by their controller",
        set: |features, on| features.consumer_class_selector = on,
    },
];

/// Which features are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Whether ConfigMaps and Secrets may opt in to retention, and revisions become their owners.
    pub controllers_as_owners: bool,
    /// Whether pods may read `metadata.ownerReferences`, at the server and on nodes.
    pub downward_owner_references: bool,
    /// Whether files may show what variables may show, at the server and on nodes.
    pub downward_volume_parity: bool,
    /// Whether `user` and `defaultUser` of files in volumes are stored.
    pub volume_file_users: bool,
    /// Whether consumers of references see their part of collections that they may not read whole.
    pub reference_filtered_lists: bool,
    /// Whether grants may select namespaces by labels.
    pub grant_namespace_selector: bool,
    /// Whether consumers may select classes by their controller.
    pub consumer_class_selector: bool,
}

impl Default for Features {
    fn default() -> Features {
        let mut features = Features {
            controllers_as_owners: false,
            downward_owner_references: false,
            downward_volume_parity: false,
            volume_file_users: false,
            reference_filtered_lists: false,
            grant_namespace_selector: false,
            consumer_class_selector: false,
        };
        for feature in FEATURES {
            (feature.set)(&mut features, feature.usual);
        }
        features
    }
}

/// Words that switch nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    /// The words are not `Name=true` or `Name=false`.
    #[error("`{0}` switches no feature")]
    Form(String),
    /// There is no such feature.
    #[error("there is no feature `{0}`")]
    Unknown(String),
    /// The value is neither true nor false.
    #[error("the feature `{name}` is `true` or `false`, not `{value}`")]
    Value {
        /// The feature.
        name: String,
        /// What was said of it.
        value: String,
    },
}

impl FeatureError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            FeatureError::Form(_) => "write `Name=true` or `Name=false`".to_owned(),
            FeatureError::Unknown(_) => {
                let names: Vec<&str> = FEATURES.iter().map(|feature| feature.name).collect();
                format!("there are: {}", names.join(", "))
            }
            FeatureError::Value { name, .. } => format!("write `{name}=true` or `{name}=false`"),
        }
    }
}

impl Features {
    /// Every feature, and whether it is on.
    pub fn each(&self) -> impl Iterator<Item = (&'static Feature, bool)> {
        FEATURES.iter().map(|feature| {
            let mut with = *self;
            (feature.set)(&mut with, true);
            (feature, with == *self)
        })
    }

    /// Reads words such as `ControllersAsOwners=false`; the last one about a feature decides.
    ///
    /// # Errors
    /// A word names no feature, or gives it no truth.
    pub fn read<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Features, FeatureError> {
        let mut features = Features::default();
        for word in words.into_iter().map(str::trim).filter(|word| !word.is_empty()) {
            let (name, value) =
                word.split_once('=').ok_or_else(|| FeatureError::Form(word.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let feature = FEATURES
                .iter()
                .find(|feature| feature.name == name)
                .ok_or_else(|| FeatureError::Unknown(name.to_owned()))?;
            let wrong = |_| FeatureError::Value { name: name.to_owned(), value: value.to_owned() };
            let on = bool::from_str(&value.to_ascii_lowercase()).map_err(wrong)?;
            (feature.set)(&mut features, on);
        }
        Ok(features)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_switch_features() {
        let on = |words: &str| Features::read(words.split(',')).map(|f| f.controllers_as_owners);
        assert_eq!(on(""), Ok(true));
        assert_eq!(on("ControllersAsOwners=false"), Ok(false));
        assert_eq!(on("ControllersAsOwners=False"), Ok(false));
        assert_eq!(on("ControllersAsOwners=false,ControllersAsOwners=true"), Ok(true));
    }

    #[test]
    fn each_feature_is_on_or_off_as_the_words_say() {
        for feature in FEATURES {
            for on in [true, false] {
                let features = Features::read([format!("{}={on}", feature.name).as_str()]).unwrap();
                for (other, state) in features.each() {
                    let expected = if other.name == feature.name { on } else { other.usual };
                    assert_eq!(state, expected, "{} with {}={on}", other.name, feature.name);
                }
            }
        }
    }

    #[test]
    fn words_that_switch_nothing_are_told() {
        let error = |words: &str| Features::read(words.split(',')).unwrap_err();
        assert_eq!(error("Sidecars=true").to_string(), "there is no feature `Sidecars`");
        assert_eq!(
            error("Sidecars=true").hint(),
            "there are: ControllersAsOwners, DownwardAPIOwnerReferences, DownwardAPIVolumeParity, \
             AtomicWriteVolumeUserFields, ReferenceFilteredLists, GrantNamespaceSelector, \
             ConsumerClassSelector"
        );
        assert_eq!(
            error("ControllersAsOwners=yes").to_string(),
            "the feature `ControllersAsOwners` is `true` or `false`, not `yes`"
        );
        assert_eq!(
            error("ControllersAsOwners").to_string(),
            "`ControllersAsOwners` switches no feature"
        );
    }
}
