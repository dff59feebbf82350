//! How a row is written down: the plain case in one call, every exception in one word.

use tenure_machinery::kind::{
    ActedOn, Dependents, Kind, NameRule, Rules, SelectableField, StatusMeta, Subresource, Verbs,
};

/// Verbs of a status-like subresource.
const STATUS_VERBS: &[&str] = &["get", "patch", "update"];
/// Verbs of a proxy.
const PROXY_VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];

/// A kind in the making: namespaced, all verbs, subdomain names, no generation, no status.
pub(super) struct KindBuilder(Kind);

/// Starts a row; the plural is also the storage prefix, the singular is the kind in lower case.
pub(super) fn row(
    (group, version): (&'static str, &'static str),
    kind: &'static str,
    plural: &'static str,
    type_name: &'static str,
    rules: impl Rules + 'static,
) -> KindBuilder {
    KindBuilder(Kind {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        plural: plural.into(),
        singular: kind.to_lowercase().into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Verbs::All,
        type_name: type_name.into(),
        storage: plural.into(),
        subresources: Vec::new(),
        name_rule: NameRule::Subdomain,
        generation: false,
        status: None,
        unconditional_update: true,
        create_on_update: false,
        returns_deleted: false,
        dependents: Dependents::Delete,
        fields: Vec::new(),
        acted_on: ActedOn::By(""),
        deprecated: None,
        rules: Box::new(rules),
    })
}

impl KindBuilder {
    /// Lives outside namespaces.
    pub(super) fn cluster(mut self) -> KindBuilder {
        self.0.namespaced = false;
        self
    }
    /// Short names.
    pub(super) fn short(mut self, names: &[&'static str]) -> KindBuilder {
        self.0.short_names = names.iter().map(|&name| name.into()).collect();
        self
    }
    /// Category.
    pub(super) fn category(mut self, name: &'static str) -> KindBuilder {
        self.0.categories.push(name.into());
        self
    }
    /// Offers fewer verbs.
    pub(super) fn verbs(mut self, verbs: Verbs) -> KindBuilder {
        self.0.verbs = verbs;
        self
    }
    /// Is kept under another prefix.
    pub(super) fn stored_at(mut self, prefix: &'static str) -> KindBuilder {
        self.0.storage = prefix.into();
        self
    }
    /// Has another rule for names.
    pub(super) fn named(mut self, rule: NameRule) -> KindBuilder {
        self.0.name_rule = rule;
        self
    }
    /// Counts changes in `metadata.generation`.
    pub(super) fn counted(mut self) -> KindBuilder {
        self.0.generation = true;
        self
    }
    /// Refuses a PUT without `resourceVersion`.
    pub(super) fn needs_version(mut self) -> KindBuilder {
        self.0.unconditional_update = false;
        self
    }
    /// Is created by a PUT of a missing object.
    pub(super) fn put_creates(mut self) -> KindBuilder {
        self.0.create_on_update = true;
        self
    }
    /// Answers DELETE with the object.
    pub(super) fn returned(mut self) -> KindBuilder {
        self.0.returns_deleted = true;
        self
    }
    /// Treats dependents in another way when DELETE does not say.
    pub(super) fn dependents(mut self, dependents: Dependents) -> KindBuilder {
        self.0.dependents = dependents;
        self
    }
    /// Is acted on by this part of the cluster, or by whoever reads it for themselves; each row says so, or
    /// that nobody does.
    pub(super) fn acted_on_by(mut self, who: &'static str) -> KindBuilder {
        self.0.acted_on = ActedOn::By(who);
        self
    }
    /// Is stored and not acted on: why.
    pub(super) fn ignored(mut self, why: &'static str) -> KindBuilder {
        self.0.acted_on = ActedOn::Nobody(why);
        self
    }
    /// Warns on every request.
    pub(super) fn deprecated(mut self, warning: &'static str) -> KindBuilder {
        self.0.deprecated = Some(warning.into());
        self
    }
    /// Has a selectable field whose label is its path.
    pub(super) fn field(self, label: &'static str, absent: &'static str) -> KindBuilder {
        self.field_at(label, label, absent)
    }
    /// Has a selectable field whose value is elsewhere.
    pub(super) fn field_at(
        mut self,
        label: &'static str,
        path: &'static str,
        absent: &'static str,
    ) -> KindBuilder {
        let path = path.split('.').map(Into::into).collect();
        self.0.fields.push(SelectableField { label: label.into(), path, absent, instead: None });
        self
    }
    /// Where the field named last is empty, another one is compared.
    pub(super) fn or_field(mut self, path: &'static str) -> KindBuilder {
        if let Some(field) = self.0.fields.last_mut() {
            field.instead = Some(path);
        }
        self
    }
    /// Has a `/status`; call it where status stands in discovery order.
    pub(super) fn status(mut self, kind: &'static str, meta: StatusMeta) -> KindBuilder {
        self.0.status = Some(meta);
        self.sub("status", kind, STATUS_VERBS)
    }
    /// Has a subresource that is read and written like the object, such as `approval`.
    pub(super) fn part(self, name: &'static str, kind: &'static str) -> KindBuilder {
        self.sub(name, kind, STATUS_VERBS)
    }
    /// Has a proxy.
    pub(super) fn proxy(self, options: &'static str) -> KindBuilder {
        self.sub("proxy", options, PROXY_VERBS)
    }
    /// Has a `/scale`.
    pub(super) fn scale(self) -> KindBuilder {
        self.foreign("scale", "Scale", ("autoscaling", "v1"), STATUS_VERBS)
    }
    /// Has a subresource of this group.
    pub(super) fn sub(
        mut self,
        name: &'static str,
        kind: &'static str,
        verbs: &'static [&'static str],
    ) -> KindBuilder {
        self.0.subresources.push(Subresource { name, kind, group_version: None, verbs });
        self
    }
    /// Has a subresource whose bodies belong to another group.
    pub(super) fn foreign(
        mut self,
        name: &'static str,
        kind: &'static str,
        group_version: (&'static str, &'static str),
        verbs: &'static [&'static str],
    ) -> KindBuilder {
        let group_version = Some(group_version);
        self.0.subresources.push(Subresource { name, kind, group_version, verbs });
        self
    }
    /// The finished row.
    pub(super) fn done(self) -> Kind {
        self.0
    }
}
