//! Random objects made from the table: decoding twice is decoding once.

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_machinery::Object;
use tenure_schema::decode::knows;
use tenure_schema::{TypeId, ValueType, apply_defaults, decode, facts};

/// A stream of choices; the same seed gives the same object.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn some(shape: &ValueType, depth: usize, dice: &mut Dice) -> Value {
    if dice.roll(12) == 0 {
        return Value::Null;
    }
    let pick = dice.roll(4) as usize;
    match shape {
        ValueType::String => json!(["", "a", "TCP", "é"][pick]),
        ValueType::Bytes => json!(["", "YQ==", "YWI=", "YWJj"][pick]),
        ValueType::Bool => json!(pick < 2),
        ValueType::Int32 => json!([0, 1, -1, i32::MAX][pick]),
        ValueType::Int64 => json!([0, 1, -1, i64::MAX][pick]),
        ValueType::Double => json!([0.0, 1.5, -2.0, 1e9][pick]),
        ValueType::Quantity => {
            [json!("1024Mi"), json!("0.5"), json!(0), json!("1500m")][pick].clone()
        }
        ValueType::IntOrString => [json!(0), json!(""), json!("25%"), json!(80)][pick].clone(),
        ValueType::Time => json!(
            [
                "0001-01-01T00:00:00Z",
                "2020-01-02T03:04:05.6+01:00",
                "1999-12-31T23:59:59Z",
                "2020-01-01T00:00:00Z"
            ][pick]
        ),
        ValueType::MicroTime => json!(
            [
                "0001-01-01T00:00:00.000000Z",
                "2020-01-02T03:04:05.123456+01:00",
                "1999-12-31T23:59:59.000001Z",
                "2020-01-01T00:00:00.000000Z"
            ][pick]
        ),
        ValueType::Any => [json!({"a": null}), json!([1]), json!(true), json!({})][pick].clone(),
        ValueType::Struct(id) => Value::Object(members(*id, depth + 1, dice)),
        ValueType::List(item) => (0..pick % 3).map(|_| some(item, depth + 1, dice)).collect(),
        ValueType::Map(each) => Value::Object(
            (0..pick % 3).map(|n| (format!("k{n}"), some(each, depth + 1, dice))).collect(),
        ),
    }
}

pub(super) fn members(id: TypeId, depth: usize, dice: &mut Dice) -> Object {
    let mut object = Object::new();
    for field in &facts().get(id).unwrap().fields {
        if dice.roll(2 + depth as u64) == 0 && depth < 12 {
            object.insert(field.json.to_owned(), some(&field.shape, depth, dice));
        }
    }
    if dice.roll(6) == 0 {
        object.insert("unheardOf".to_owned(), json!({"x": 1}));
    }
    object
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn r13_decoding_twice_is_decoding_once(seed in any::<u64>(), pick in any::<u16>()) {
        let id = TypeId(pick % u16::try_from(facts().types().len()).unwrap());
        let mut once = members(id, 0, &mut Dice(seed));
        let known = knows(id, &once);
        let noticed = decode(id, &mut once).unwrap_or_else(|wrong| panic!("{}", wrong.message));
        prop_assert_eq!(known, noticed.unknown.is_empty(), "{:?}", noticed.unknown);
        let mut twice = once.clone();
        let noticed = decode(id, &mut twice).unwrap();
        prop_assert!(noticed.unknown.is_empty());
        prop_assert_eq!(&once, &twice);
        apply_defaults(id, &mut once);
        let mut again = once.clone();
        apply_defaults(id, &mut again);
        prop_assert_eq!(&once, &again);
        decode(id, &mut again).unwrap();
        prop_assert_eq!(&once, &again);
    }
}

#[test]
fn every_type_decodes_from_nothing() {
    for at in 0..facts().types().len() {
        let id = TypeId(u16::try_from(at).unwrap());
        let mut object = Object::new();
        decode(id, &mut object).unwrap();
    }
}
