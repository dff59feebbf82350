//! A policy made ready to run: its expressions compiled once, its rules and selectors read once.
//!
//! The same code finds what is wrong with a policy that is being written, or with the conditions of a webhook;
//! in which order that is told, when a policy applies and what comes of it is decided beside this.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use tenure_cel::{
    CompileError, DeclaredType, Env, JSON_PATCH, OBJECT, Opaque, Program, Type, compile,
};
use tenure_machinery::validate::{objects, text};
use tenure_machinery::{Object, ObjectExt};

use super::matching::Matching;

/// When a policy or a webhook is asked at all.
pub(super) const CONDITIONS: &str = "matchConditions";
/// What comes before the name of a variable of a policy.
pub(super) const VARIABLES: &str = "variables";
/// What a policy changes.
pub(super) const MUTATIONS: &str = "mutations";
/// The expression that words a refusal.
const MESSAGE: &str = "messageExpression";
/// Who answers what the user may do.
pub(super) const AUTHORIZER: &str = "authorizer";
/// The same about the resource of the request.
pub(super) const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// A policy, ready to run.
pub(in crate::admit) struct CompiledPolicy {
    pub(super) name: String,
    /// Whether a policy that fails is passed over.
    pub(super) ignores_failures: bool,
    pub(super) matching: Matching,
    /// The version and kind of its parameters.
    pub(super) param_kind: Option<(String, String)>,
    pub(in crate::admit) conditions: Vec<Expression>,
    pub(super) variables: Vec<PolicyVariable>,
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<(String, Expression)>,
    pub(super) mutations: Vec<Mutation>,
    /// Whether it is asked again when others changed the object after it.
    pub(super) reinvoked: bool,
    /// Why it cannot run; a policy that is refused when it is written never gets here.
    pub(in crate::admit) fault: Option<String>,
}

/// An expression and what it needs.
pub(in crate::admit) struct Expression {
    pub(super) text: String,
    pub(super) program: Program,
    /// The variables it names, by place.
    pub(super) needs: Vec<usize>,
}

/// A variable of a policy: computed when an expression needs it, once.
pub(super) struct PolicyVariable {
    /// As expressions name it.
    pub(super) name: Arc<str>,
    pub(super) expression: Expression,
}

/// One change of an object.
pub(super) struct Mutation {
    pub(super) patch: PatchForm,
    pub(super) expression: Expression,
}

/// How a change is said.
#[derive(Clone, Copy)]
pub(super) enum PatchForm {
    /// The fields that shall be, as an apply says them.
    Apply,
    /// The operations of a JSON patch.
    Json,
}

/// One thing that must hold.
pub(super) struct Validation {
    pub(super) expression: Expression,
    pub(super) message: String,
    pub(super) computed: Option<Expression>,
    pub(super) reason: &'static str,
    pub(super) code: u16,
}

/// What is wrong with an expression, and where it stands in the spec.
pub(super) struct ExpressionError {
    pub(super) list: &'static str,
    pub(super) index: usize,
    pub(super) member: &'static str,
    pub(super) text: String,
    pub(super) why: String,
}

/// What is wrong with the expressions of a policy that is being written.
pub(super) fn faults(policy: &Object) -> Vec<ExpressionError> {
    Compiler::run(policy).1
}

/// What is wrong with the conditions of one webhook, which knows neither parameters nor variables.
pub(super) fn webhook_faults(webhook: &Object) -> Vec<ExpressionError> {
    let mut compiler = Compiler { env: env(false), names: Vec::new(), faults: Vec::new() };
    compiler.all(webhook, CONDITIONS, "expression", ResultType::Truth);
    compiler.faults
}

impl CompiledPolicy {
    /// The conditions of a webhook, as a policy that has nothing else.
    pub(in crate::admit) fn of_webhook(webhook: &Object) -> CompiledPolicy {
        let mut compiler = Compiler { env: env(false), names: Vec::new(), faults: Vec::new() };
        let conditions = compiler.all(webhook, CONDITIONS, "expression", ResultType::Truth);
        CompiledPolicy {
            name: text(webhook, "name").to_owned(),
            ignores_failures: text(webhook, "failurePolicy") == "Ignore",
            matching: Matching::default(),
            param_kind: None,
            conditions,
            variables: Vec::new(),
            validations: Vec::new(),
            annotations: Vec::new(),
            mutations: Vec::new(),
            reinvoked: false,
            fault: compiler.faults.into_iter().next().map(|fault| fault.why),
        }
    }

    pub(super) fn new(object: &Object) -> CompiledPolicy {
        let (mut policy, faults) = Compiler::run(object);
        policy.fault = faults.into_iter().next().map(|fault| fault.why);
        policy
    }
}

/// What expressions may answer.
#[derive(Clone, Copy)]
enum ResultType {
    Truth,
    Text,
    TextOrNull,
    Anything,
    Configuration,
    Operations,
}

impl ResultType {
    fn fault(self, found: &Type) -> Option<String> {
        let wanted = match (self, found) {
            (ResultType::Anything, _)
            | (ResultType::Truth, Type::Bool)
            | (ResultType::Text | ResultType::TextOrNull, Type::String)
            | (ResultType::TextOrNull, Type::Null) => return None,
            (ResultType::Configuration, Type::Struct(name)) if **name == *OBJECT => return None,
            (ResultType::Operations, Type::List(item)) if is_operation(item) => return None,
            (ResultType::Configuration, _) => OBJECT,
            (ResultType::Operations, _) => "list(JSONPatch)",
            (ResultType::Truth, _) => "bool",
            (ResultType::Text, _) => "string",
            (ResultType::TextOrNull, _) => "one of [string null_type]",
        };
        Some(format!("must evaluate to {wanted} but got {found}"))
    }
}

fn is_operation(item: &Type) -> bool {
    matches!(item, Type::Struct(name) if **name == *JSON_PATCH)
}

/// Compiles one policy.
struct Compiler {
    env: Env,
    names: Vec<Arc<str>>,
    faults: Vec<ExpressionError>,
}

impl Compiler {
    fn run(object: &Object) -> (CompiledPolicy, Vec<ExpressionError>) {
        let none = Object::new();
        let spec = object.map_at(&["spec"]).unwrap_or(&none);
        let param_kind = spec.map_at(&["paramKind"]);
        let env = env(param_kind.is_some());
        let mut compiler = Compiler { env, names: Vec::new(), faults: Vec::new() };
        let conditions = compiler.all(spec, CONDITIONS, "expression", ResultType::Truth);
        let variables = compiler.variables(spec);
        let validations = compiler.validations(spec);
        let annotations = compiler.annotations(spec);
        let mutations = compiler.mutations(spec);
        let policy = CompiledPolicy {
            name: object.name().to_owned(),
            ignores_failures: text(spec, "failurePolicy") == "Ignore",
            matching: Matching::new(spec.map_at(&["matchConstraints"])),
            param_kind: param_kind
                .map(|kind| (text(kind, "apiVersion").to_owned(), text(kind, "kind").to_owned())),
            conditions,
            variables,
            validations,
            annotations,
            mutations,
            reinvoked: text(spec, "reinvocationPolicy") == "IfNeeded",
            fault: None,
        };
        (policy, compiler.faults)
    }

    fn all(
        &mut self,
        spec: &Object,
        list: &'static str,
        member: &'static str,
        answer: ResultType,
    ) -> Vec<Expression> {
        let found = objects(spec, list);
        found
            .filter_map(|(index, one)| self.one((list, index, member), text(one, member), answer))
            .collect()
    }

    fn variables(&mut self, spec: &Object) -> Vec<PolicyVariable> {
        let mut made = Vec::new();
        for (index, one) in objects(spec, VARIABLES) {
            let at = (VARIABLES, index, "expression");
            let Some(expression) = self.one(at, text(one, "expression"), ResultType::Anything)
            else {
                continue;
            };
            let name: Arc<str> = format!("{VARIABLES}.{}", text(one, "name")).into();
            let ty = expression.program.result_type().clone();
            self.env = std::mem::take(&mut self.env).with_type(&name, ty);
            self.names.push(Arc::clone(&name));
            made.push(PolicyVariable { name, expression });
        }
        made
    }

    fn validations(&mut self, spec: &Object) -> Vec<Validation> {
        let mut made = Vec::new();
        for (index, one) in objects(spec, "validations") {
            let at = |member| ("validations", index, member);
            let rule = self.one(at("expression"), text(one, "expression"), ResultType::Truth);
            let computed = self.one(at(MESSAGE), text(one, MESSAGE), ResultType::Text);
            let Some(expression) = rule else { continue };
            let said = text(one, "message").trim();
            let message = if said.is_empty() {
                format!("failed expression: {}", expression.text.trim())
            } else {
                said.to_owned()
            };
            let (reason, code) = match text(one, "reason") {
                "Forbidden" => ("Forbidden", 403),
                "Unauthorized" => ("Unauthorized", 401),
                "RequestEntityTooLarge" => ("RequestEntityTooLarge", 413),
                _ => ("Invalid", 422),
            };
            made.push(Validation { expression, message, computed, reason, code });
        }
        made
    }

    fn annotations(&mut self, spec: &Object) -> Vec<(String, Expression)> {
        let mut made = Vec::new();
        for (index, one) in objects(spec, "auditAnnotations") {
            let at = ("auditAnnotations", index, "valueExpression");
            let expression = self.one(at, text(one, "valueExpression"), ResultType::TextOrNull);
            made.extend(expression.map(|expression| (text(one, "key").to_owned(), expression)));
        }
        made
    }

    fn mutations(&mut self, spec: &Object) -> Vec<Mutation> {
        let plain = self.env.clone();
        self.env = std::mem::take(&mut self.env).with_patches();
        let mut made = Vec::new();
        for (index, one) in objects(spec, MUTATIONS) {
            let (patch, member, place, answer) = match text(one, "patchType") {
                "JSONPatch" => {
                    (PatchForm::Json, "jsonPatch", "jsonPatch.expression", ResultType::Operations)
                }
                "ApplyConfiguration" => (
                    PatchForm::Apply,
                    "applyConfiguration",
                    "applyConfiguration.expression",
                    ResultType::Configuration,
                ),
                _ => continue,
            };
            let said = one.map_at(&[member]).map_or("", |patch| text(patch, "expression"));
            let expression = self.one((MUTATIONS, index, place), said, answer);
            made.extend(expression.map(|expression| Mutation { patch, expression }));
        }
        self.env = plain;
        made
    }

    /// Compiles one expression; an empty one is told of elsewhere.
    fn one(
        &mut self,
        (list, index, member): (&'static str, usize, &'static str),
        text: &str,
        answer: ResultType,
    ) -> Option<Expression> {
        if text.trim().is_empty() {
            return None;
        }
        let why = match compile(text, &self.env) {
            Err(CompileError { message }) => refusal(&message),
            Ok(program) if member == MESSAGE && uses_authorizer(&program) => {
                refusal("undeclared reference to 'authorizer': messages know no rights")
            }
            Ok(program) => match answer.fault(program.result_type()) {
                Some(why) => why,
                None => {
                    let named = self.names.iter().enumerate();
                    let named = named.filter(|(_, name)| program.uses(name));
                    let needs = named.map(|(place, _)| place).collect();
                    return Some(Expression { text: text.to_owned(), program, needs });
                }
            },
        };
        self.faults.push(ExpressionError { list, index, member, text: text.to_owned(), why });
        None
    }
}

fn refusal(message: &str) -> String {
    format!("compilation failed: {message}")
}

/// Whether an expression asks what somebody may do.
pub(super) fn uses_authorizer(program: &Program) -> bool {
    program.uses(AUTHORIZER) || program.uses(REQUEST_RESOURCE)
}

/// What every expression of a policy may name.
fn env(params: bool) -> Env {
    typed_env(&ANY, params.then_some(&*ANY))
}

/// The same with what is known of the object and of the parameters.
pub(super) fn typed_env(object: &Arc<DeclaredType>, params: Option<&Arc<DeclaredType>>) -> Env {
    let env = Env::new()
        .with_shape("object", object)
        .with_shape("oldObject", object)
        .with_shape("namespaceObject", &NAMESPACE)
        .with_shape("request", &REQUEST)
        .with_type(AUTHORIZER, Type::Opaque(Opaque::Authorizer))
        .with_type(REQUEST_RESOURCE, Type::Opaque(Opaque::ResourceCheck));
    let env = match params {
        Some(params) => env.with_shape("params", params),
        None => env,
    };
    // Nothing has this name by itself, but a variable that is not there is told of as a member.
    env.with_shape(VARIABLES, &NOTHING)
}

/// Data that is looked at as it comes.
pub(super) static ANY: LazyLock<Arc<DeclaredType>> = LazyLock::new(DeclaredType::any);
static NOTHING: LazyLock<Arc<DeclaredType>> = LazyLock::new(|| DeclaredType::object(&[]));

fn shape(schema: &Value) -> Arc<DeclaredType> {
    DeclaredType::from_schema(schema, false).unwrap_or_else(DeclaredType::any)
}

/// What expressions see of a request.
pub(super) static REQUEST: LazyLock<Arc<DeclaredType>> = LazyLock::new(|| {
    let string = shape(&json!({"type": "string"}));
    let bool = shape(&json!({"type": "boolean"}));
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let kind = DeclaredType::object(&[("group", &string), ("version", &string), ("kind", &string)]);
    let resource =
        DeclaredType::object(&[("group", &string), ("version", &string), ("resource", &string)]);
    let user = DeclaredType::object(&[
        ("username", &string),
        ("uid", &string),
        ("groups", &shape(&texts)),
        ("extra", &shape(&json!({"type": "object", "additionalProperties": texts}))),
    ]);
    DeclaredType::object(&[
        ("kind", &kind),
        ("resource", &resource),
        ("subResource", &string),
        ("requestKind", &kind),
        ("requestResource", &resource),
        ("requestSubResource", &string),
        ("name", &string),
        ("namespace", &string),
        ("operation", &string),
        ("userInfo", &user),
        ("dryRun", &bool),
        ("options", &ANY),
    ])
});

/// What expressions see of the namespace.
pub(super) static NAMESPACE: LazyLock<Arc<DeclaredType>> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let map = json!({"type": "object", "additionalProperties": text});
    let time = json!({"type": "string", "format": "date-time"});
    let whole = json!({"type": "integer"});
    shape(&json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {
            "name": text, "generateName": text, "namespace": text, "labels": map,
            "annotations": map, "UID": text, "creationTimestamp": time,
            "deletionGracePeriodSeconds": whole, "deletionTimestamp": time, "generation": whole,
            "resourceVersion": text, "finalizers": texts,
        }},
        "spec": {"type": "object", "properties": {"finalizers": texts}},
        "status": {"type": "object", "properties": {
            "phase": text,
            "conditions": {"type": "array", "items": {"type": "object", "properties": {
                "status": text, "type": text, "lastTransitionTime": time, "message": text,
                "reason": text,
            }}},
        }},
    }}))
});
