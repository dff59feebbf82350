//! Addresses and networks. IPv4 inside IPv6 and zones are refused.

use std::net::IpAddr;

use crate::error::EvalError;
use crate::meter::{Meter, scaled};
use crate::value::Value;

type Made<'a> = Result<Value<'a>, EvalError>;

/// No address is longer.
const LENGTH_MAX: usize = 64;

fn read_ip(text: &str) -> Option<IpAddr> {
    let address: IpAddr = (text.len() <= LENGTH_MAX).then(|| text.parse().ok())??;
    let mapped = matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    (!mapped).then_some(address)
}

fn read_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address = read_ip(address)?;
    let plain = !bits.is_empty()
        && bits.bytes().all(|b| b.is_ascii_digit())
        && (bits.len() == 1 || !bits.starts_with('0'));
    let bits: u8 = plain.then(|| bits.parse().ok())??;
    (bits <= width(address)).then_some((address, bits))
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with everything after the prefix cleared.
fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let keep = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & keep).into())
        }
        IpAddr::V6(v6) => {
            let keep = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & keep).into())
        }
    }
}

fn not_an_ip(text: &str) -> EvalError {
    let shown: String = text.chars().take(LENGTH_MAX).collect();
    EvalError::failed(format!("IP Address {shown:?} parse error during conversion from string"))
}

fn not_a_cidr() -> EvalError {
    EvalError::failed("network address parse error during conversion from string")
}

pub(crate) fn ip<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Cidr(address, _)] => {
            meter.charge(1)?;
            Ok(Value::Ip(*address))
        }
        [Value::String(text)] => {
            meter.charge(scaled(text.len() as u64, 0.1))?;
            read_ip(text).map(Value::Ip).ok_or_else(|| not_an_ip(text))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn is_ip<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(read_ip(text).is_some())),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn is_canonical<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text)] => {
            let address = read_ip(text).ok_or_else(|| not_an_ip(text))?;
            Ok(Value::Bool(address.to_string() == **text))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

/// A question about an address.
fn ask<'a>(args: &[Value<'a>], question: fn(IpAddr) -> bool) -> Made<'a> {
    match args {
        [Value::Ip(address)] => Ok(Value::Bool(question(*address))),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn family<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Ip(address)] => Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn is_unspecified<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    ask(args, |address| address.is_unspecified())
}

pub(crate) fn is_loopback<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    ask(args, |address| address.is_loopback())
}

fn link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
        IpAddr::V6(v6) => matches!(v6.octets(), [0xff, scope, ..] if scope & 0x0f == 0x02),
    }
}

fn link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

pub(crate) fn is_link_local_multicast<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    ask(args, link_local_multicast)
}

pub(crate) fn is_link_local_unicast<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    ask(args, link_local_unicast)
}

pub(crate) fn is_global_unicast<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    ask(args, |address| {
        let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
        !broadcast
            && !address.is_unspecified()
            && !address.is_loopback()
            && !address.is_multicast()
            && !link_local_unicast(address)
    })
}

pub(crate) fn cidr<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text)] => {
            let (address, bits) = read_cidr(text).ok_or_else(not_a_cidr)?;
            Ok(Value::Cidr(address, bits))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn is_cidr<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(read_cidr(text).is_some())),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn covers(address: IpAddr, bits: u8, other: IpAddr) -> bool {
    address.is_ipv4() == other.is_ipv4() && mask(address, bits) == mask(other, bits)
}

pub(crate) fn contains_ip<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let [cidr @ Value::Cidr(address, bits), other] = args else {
        return Err(EvalError::no_such_overload());
    };
    meter.charge(scaled(cidr.size().saturating_mul(2), 0.1))?;
    let other = match other {
        Value::Ip(other) => *other,
        Value::String(text) => {
            meter.charge(scaled(text.len() as u64, 0.1))?;
            read_ip(text).ok_or_else(|| not_an_ip(text))?
        }
        _ => return Err(EvalError::no_such_overload()),
    };
    Ok(Value::Bool(covers(*address, *bits, other)))
}

pub(crate) fn contains_cidr<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let [cidr @ Value::Cidr(address, bits), other] = args else {
        return Err(EvalError::no_such_overload());
    };
    meter.charge(scaled(cidr.size().saturating_mul(2), 0.1))?;
    meter.charge(scaled(cidr.size(), 0.1).saturating_add(1))?;
    let (inner, inner_bits) = match other {
        Value::Cidr(inner, inner_bits) => (*inner, *inner_bits),
        Value::String(text) => {
            meter.charge(scaled(text.len() as u64, 0.1))?;
            read_cidr(text).ok_or_else(not_a_cidr)?
        }
        _ => return Err(EvalError::no_such_overload()),
    };
    Ok(Value::Bool(*bits <= inner_bits && covers(*address, *bits, inner)))
}

pub(crate) fn prefix_length<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Cidr(_, bits)] => Ok(Value::Int(i64::from(*bits))),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn masked<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Cidr(address, bits)] => Ok(Value::Cidr(mask(*address, *bits), *bits)),
        _ => Err(EvalError::no_such_overload()),
    }
}
