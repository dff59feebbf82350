//! What a controller wants done, and what the host says when it was refused.
//!
//! ```text
//!   Outcome.intents ──► host, in order ──► done: the note `done` is told
//!                                     └──► refused: the note `refused` is told, and unless the
//!                                          intent is independent the rest of the pass is dropped
//! ```
//!
//! Nothing here acts. An intent names the revision or uid it was decided at, so that a host may
//! carry it out late and still do no harm.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tenure_core::Revision;
use tenure_machinery::{Object, ObjectExt, WriteRefusal};

use crate::resource::BuiltinResource;
use crate::view::{ObjectHeader, VersionedObject};

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerIntent {
    /// What to do.
    pub act: Act,
    /// What must still hold when it is done, besides what the act itself says.
    pub relies_on: Vec<Reliance>,
    /// When refused, the intents after it are carried out all the same (PU3).
    pub independent: bool,
    /// May be carried out at the same time as the intent before it.
    ///
    /// The host waits for the whole run of such intents; a refusal in it ends the pass after it.
    pub together: bool,
    /// Refusals that leave nothing to do (CR8, CR9).
    pub forgiven: &'static [WriteRefusal],
    /// Told when the act was done.
    pub done: Option<EventReport>,
    /// Told when the act was refused, unless the namespace is terminating (PU7).
    pub refused: Option<EventReport>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Put a new object; its name may be left to the server through `generateName`.
    Create {
        /// Where it goes.
        resource: BuiltinResource,
        /// The object, with `metadata.namespace` where the resource has namespaces.
        object: Box<Object>,
    },
    /// Put an object over the one that was seen.
    Update {
        /// Where it goes.
        resource: BuiltinResource,
        /// The whole object as it should be.
        object: Box<Object>,
        /// Through which door.
        endpoint: UpdateEndpoint,
        /// The revision it was decided at; a newer one refuses with `Conflict`.
        revision: Revision,
    },
    /// Remove an object.
    Delete {
        /// Where it is.
        resource: BuiltinResource,
        /// Its namespace; empty where the resource has none.
        namespace: String,
        /// Its name.
        name: String,
        /// The uid it must have.
        uid: String,
        /// The revision it must have, if that matters.
        revision: Option<Revision>,
        /// What becomes of dependents; `None` leaves it to the kind.
        propagation: Option<IntentPropagation>,
        /// How long it may take to end; `None` leaves it to the object.
        grace_seconds: Option<i64>,
    },
    /// Remove an object of any kind, custom ones too.
    Remove {
        /// Which.
        object: AnyObject,
        /// What becomes of dependents; `None` leaves it to the object.
        propagation: Option<IntentPropagation>,
    },
    /// Apply a configuration by force: what it says is the controller's from then on.
    Apply {
        /// Where it goes.
        resource: BuiltinResource,
        /// The configuration.
        config: Box<Object>,
    },
    /// Put a Secret over the one that was seen, with a token in it that the host draws.
    IssueToken {
        /// The Secret as it should be, but for `data.token`.
        object: Box<Object>,
        /// The revision it was decided at; a newer one refuses with `Conflict`.
        revision: Revision,
        /// The service account, in the namespace of the Secret.
        account: String,
        /// The uid of that account.
        account_uid: String,
    },
    /// Ask the cluster's authority for a certificate for what a node serves; approve the request, and put the
    /// certificate into its status. Refused as [`UNSIGNED`] where the authority will not sign.
    SignCertificate {
        /// The request as approved.
        approved: Box<Object>,
        /// The revision it was decided at; a newer one refuses with `Conflict`.
        revision: Revision,
        /// The node.
        node: String,
        /// What it asks for: `spec.request`.
        request: String,
    },
    /// Have the expressions of an admission policy compiled against the kinds that it is about, and put what
    /// does not fit into its status.
    CheckTypes {
        /// The policy as it was seen.
        policy: Box<Object>,
        /// The revision it was decided at; a newer one refuses with `Conflict`.
        revision: Revision,
    },
    /// Put a Scale at a path of the API that ends with `/scale`, as any client would.
    PutScale {
        /// The path.
        path: String,
        /// The Scale.
        scale: Box<Object>,
    },
    /// Write the object at a path of the API as it is, by a patch that changes nothing.
    Touch {
        /// The path.
        path: String,
        /// Its name.
        name: String,
    },
    /// Remove an object at a path of the API that somebody else serves, in the background.
    RemoveElsewhere {
        /// The path.
        path: String,
        /// Its name.
        name: String,
        /// The uid it must have; empty where its server gives none.
        uid: String,
    },
    /// Only tell.
    Tell(EventReport),
}

/// The reason of the refusal of a certificate.
pub const UNSIGNED: &str = "Unsigned";

/// An object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AnyObject {
    /// The API group; empty for core.
    pub group: String,
    /// The resource, such as `pods`.
    pub resource: String,
    /// Empty where the resource has no namespaces.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The uid it must have.
    pub uid: String,
}

impl AnyObject {
    /// The object that this instance is.
    #[must_use]
    pub fn of(instance: &ObjectHeader<'_>) -> AnyObject {
        AnyObject {
            group: instance.group.to_string(),
            resource: instance.resource.to_string(),
            namespace: instance.namespace.to_string(),
            name: instance.name.to_string(),
            uid: instance.uid.to_string(),
        }
    }
}

/// The endpoint that an update goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateEndpoint {
    /// The object itself; status stays as stored.
    Main,
    /// `/status`: only status, and what metadata the kind lets through.
    Status,
    /// `/binding` of a pod: the object is a Binding.
    Binding,
    /// `/finalize` of a namespace.
    Finalize,
    /// `/approval` of a CertificateSigningRequest.
    Approval,
}

impl UpdateEndpoint {
    /// As paths write it; empty for the object itself.
    #[must_use]
    pub const fn subresource(self) -> &'static str {
        match self {
            UpdateEndpoint::Main => "",
            UpdateEndpoint::Status => "status",
            UpdateEndpoint::Binding => "binding",
            UpdateEndpoint::Finalize => "finalize",
            UpdateEndpoint::Approval => "approval",
        }
    }
}

/// What becomes of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntentPropagation {
    /// They go afterwards.
    Background,
    /// They go first.
    Foreground,
    /// They stay, without the reference.
    Orphan,
}

/// Something a decision relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reliance {
    /// An object still has this uid and is not being deleted (CR6).
    Living {
        /// Where it is.
        resource: BuiltinResource,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// An object was written at this revision; `None` means that there is none.
    At {
        /// Where it is.
        resource: BuiltinResource,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The revision that was seen.
        revision: Option<Revision>,
    },
    /// A namespace holds no object of any kind.
    NamespaceEmpty {
        /// Its name.
        namespace: String,
    },
    /// There is no object of a custom kind.
    NoInstances {
        /// The name of its definition.
        definition: String,
    },
}

/// An event to be told about an object; the host writes, counts and merges them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventReport {
    /// Whom it is about.
    pub about: InvolvedObject,
    /// `Warning` rather than `Normal`.
    pub warning: bool,
    /// Such as `SuccessfulCreate`.
    pub reason: String,
    /// The words, but for what only the host knows.
    pub message: String,
    /// What the host adds to the words.
    pub ending: MessageSuffix,
}

/// What the host adds at the end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSuffix {
    /// Nothing.
    Nothing,
    /// The name that the object got.
    Name,
    /// Why it was refused.
    Error,
}

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvolvedObject {
    /// Its resource.
    pub resource: BuiltinResource,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The revision it was seen at.
    pub revision: Revision,
}

impl InvolvedObject {
    /// The subject that is this object.
    #[must_use]
    pub fn of(resource: BuiltinResource, object: &VersionedObject) -> InvolvedObject {
        InvolvedObject {
            resource,
            namespace: object.namespace().to_string(),
            name: object.name().to_string(),
            uid: crate::owner::uid(object).to_string(),
            revision: object.revision,
        }
    }

    /// A note about this object that is good news.
    #[must_use]
    pub fn normal(&self, reason: &str, message: impl Into<String>) -> EventReport {
        self.note(false, reason, message.into())
    }

    /// A note about this object that somebody should look at.
    #[must_use]
    pub fn warning(&self, reason: &str, message: impl Into<String>) -> EventReport {
        self.note(true, reason, message.into())
    }

    fn note(&self, warning: bool, reason: &str, message: String) -> EventReport {
        let (about, reason) = (self.clone(), reason.to_string());
        EventReport { about, warning, reason, message, ending: MessageSuffix::Nothing }
    }

    /// That this object must live when the intent is carried out.
    #[must_use]
    pub fn living(&self) -> Reliance {
        Reliance::Living {
            resource: self.resource,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }
}

impl EventReport {
    /// The same note, with something that only the host knows at its end.
    #[must_use]
    pub fn ending(mut self, ending: MessageSuffix) -> EventReport {
        self.ending = ending;
        self
    }

    /// The whole message, once name and error are known.
    #[must_use]
    pub fn words(&self, name: &str, error: &str) -> String {
        let mut words = self.message.clone();
        match self.ending {
            MessageSuffix::Nothing => {}
            MessageSuffix::Name => words.push_str(name),
            MessageSuffix::Error => words.push_str(error),
        }
        words
    }
}

impl ControllerIntent {
    fn new(act: Act) -> ControllerIntent {
        ControllerIntent {
            act,
            relies_on: Vec::new(),
            independent: false,
            together: false,
            forgiven: &[],
            done: None,
            refused: None,
        }
    }

    /// Put a new object.
    #[must_use]
    pub fn create(resource: BuiltinResource, object: Object) -> ControllerIntent {
        ControllerIntent::new(Act::Create { resource, object: Box::new(object) })
    }

    /// Put an object over the one written at `revision`.
    #[must_use]
    pub fn update(
        resource: BuiltinResource,
        object: Object,
        endpoint: UpdateEndpoint,
        revision: Revision,
    ) -> ControllerIntent {
        ControllerIntent::new(Act::Update {
            resource,
            object: Box::new(object),
            endpoint,
            revision,
        })
    }

    /// Remove the object that was seen, as its kind does by default, whatever has changed in it.
    #[must_use]
    pub fn delete(resource: BuiltinResource, object: &Object) -> ControllerIntent {
        ControllerIntent::new(Act::Delete {
            resource,
            namespace: object.namespace().to_string(),
            name: object.name().to_string(),
            uid: crate::owner::uid(object).to_string(),
            revision: None,
            propagation: None,
            grace_seconds: None,
        })
    }

    /// Remove an object of any kind, whatever has changed in it.
    #[must_use]
    pub fn remove(object: AnyObject, propagation: Option<IntentPropagation>) -> ControllerIntent {
        ControllerIntent::new(Act::Remove { object, propagation })
    }

    /// Apply a configuration by force.
    #[must_use]
    pub fn apply(resource: BuiltinResource, config: Object) -> ControllerIntent {
        ControllerIntent::new(Act::Apply { resource, config: Box::new(config) })
    }

    /// Put a Secret over the one written at `revision`, with a token for a service account in it.
    #[must_use]
    pub fn issue_token(
        secret: Object,
        revision: Revision,
        account: String,
        account_uid: String,
    ) -> ControllerIntent {
        let object = Box::new(secret);
        ControllerIntent::new(Act::IssueToken { object, revision, account, account_uid })
    }

    /// Ask for a certificate for what a node serves, and answer its request.
    #[must_use]
    pub fn sign_certificate(
        approved: Object,
        revision: Revision,
        node: String,
        request: String,
    ) -> ControllerIntent {
        let approved = Box::new(approved);
        ControllerIntent::new(Act::SignCertificate { approved, revision, node, request })
    }

    /// Have the expressions of an admission policy compiled against the kinds that it is about.
    #[must_use]
    pub fn check_types(policy: Object, revision: Revision) -> ControllerIntent {
        ControllerIntent::new(Act::CheckTypes { policy: Box::new(policy), revision })
    }

    /// Put a Scale at a path of the API.
    #[must_use]
    pub fn put_scale(path: String, scale: Object) -> ControllerIntent {
        ControllerIntent::new(Act::PutScale { path, scale: Box::new(scale) })
    }

    /// Write the object at a path of the API as it is.
    #[must_use]
    pub fn touch(path: String, name: String) -> ControllerIntent {
        ControllerIntent::new(Act::Touch { path, name })
    }

    /// Remove an object at a path of the API.
    #[must_use]
    pub fn remove_elsewhere(path: String, name: String, uid: String) -> ControllerIntent {
        ControllerIntent::new(Act::RemoveElsewhere { path, name, uid })
    }

    /// Only tell.
    #[must_use]
    pub fn tell(note: EventReport) -> ControllerIntent {
        let mut intent = ControllerIntent::new(Act::Tell(note));
        intent.independent = true;
        intent
    }

    /// Told when the act was done.
    #[must_use]
    pub fn when_done(mut self, note: EventReport) -> ControllerIntent {
        self.done = Some(note);
        self
    }

    /// Told when the act was refused.
    #[must_use]
    pub fn when_refused(mut self, note: EventReport) -> ControllerIntent {
        self.refused = Some(note);
        self
    }

    /// The intents after it are carried out even if it is refused.
    #[must_use]
    pub fn independent(mut self) -> ControllerIntent {
        self.independent = true;
        self
    }

    /// A refusal for one of these reasons counts as done, and nothing is told.
    #[must_use]
    pub fn forgiving(mut self, refusals: &'static [WriteRefusal]) -> ControllerIntent {
        self.forgiven = refusals;
        self
    }

    /// May be carried out at the same time as the intent before it.
    #[must_use]
    pub fn together(mut self, together: bool) -> ControllerIntent {
        self.together = together;
        self
    }

    /// Refused unless this still holds.
    #[must_use]
    pub fn relying_on(mut self, reliance: Reliance) -> ControllerIntent {
        self.relies_on.push(reliance);
        self
    }

    /// Sets what becomes of dependents; nothing happens unless it is a deletion.
    #[must_use]
    pub fn propagating(mut self, wanted: IntentPropagation) -> ControllerIntent {
        if let Act::Delete { propagation, .. } = &mut self.act {
            *propagation = Some(wanted);
        }
        self
    }

    /// Sets how long the object may take to end; nothing happens unless it is a deletion.
    #[must_use]
    pub fn within_seconds(mut self, seconds: i64) -> ControllerIntent {
        if let Act::Delete { grace_seconds, .. } = &mut self.act {
            *grace_seconds = Some(seconds);
        }
        self
    }

    /// Refuses a deletion when the object has changed since.
    #[must_use]
    pub fn unless_changed(mut self, seen: Revision) -> ControllerIntent {
        if let Act::Delete { revision, .. } = &mut self.act {
            *revision = Some(seen);
        }
        self
    }
}

/// What kind of act was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A creation.
    Create,
    /// An update through any door.
    Update,
    /// A deletion.
    Delete,
}

/// An intent of the pass before that the host could not carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedIntent {
    /// What was tried.
    pub verb: Verb,
    /// Of which resource; `None` for one that controllers do not know.
    pub resource: Option<BuiltinResource>,
    /// The name of the object; of a creation without a name, its `generateName`.
    pub name: String,
    /// What it comes down to.
    pub why: WriteRefusal,
    /// The reason of the Status, such as `AlreadyExists` or `Forbidden`.
    pub reason: String,
    /// The message of the Status.
    pub message: String,
    /// Whether the namespace is being deleted, so that no creation can succeed (PU7).
    pub namespace_terminating: bool,
}
