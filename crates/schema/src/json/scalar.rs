//! Values without parts from JSON.

use crate::json::{Json, time};
use crate::tree::{Number, Type};
use crate::value::Value;
use std::net::{IpAddr, SocketAddr};

/// The values of a type of integers, in words.
pub(crate) fn range(number: Number) -> String {
    let bits = number.size() * 8;
    match (number.is_signed(), bits) {
        (false, 8..=32) => format!("from 0 to {}", (1_u64 << bits) - 1),
        (true, 8..=32) => format!("from -{} to {}", 1_u64 << (bits - 1), (1_u64 << (bits - 1)) - 1),
        _ => format!("a whole number of {bits} bits"),
    }
}

/// A value without parts.
pub(crate) fn simple(ty: &Type, json: &Json) -> Option<Value> {
    Some(match (ty, json) {
        (Type::Number(number), Json::Number(text) | Json::Text(text)) => self::number(*number, text, json)?,
        (Type::NonZero(number), Json::Number(text) | Json::Text(text)) => {
            match self::number(*number, text, json)? {
                Value::Unsigned(0) | Value::Signed(0) => return None,
                value => value,
            }
        }
        (Type::Bool, Json::Bool(value)) => Value::Bool(*value),
        (Type::Unit, Json::Null) => Value::Unit,
        (Type::Char, Json::Text(text)) => {
            let mut chars = text.chars();
            let first = chars.next()?;
            chars.next().is_none().then_some(Value::Char(first))?
        }
        (Type::Text, Json::Text(text)) => Value::Text(text.clone()),
        (Type::Duration, Json::Text(text)) => Value::Duration(time::duration(text)?),
        (Type::SystemTime, Json::Text(text)) => {
            let (secs, nanos) = time::time(text)?;
            Value::Time(secs, nanos)
        }
        (Type::Ipv4Addr | Type::Ipv6Addr | Type::IpAddr, Json::Text(text)) => {
            let address: IpAddr = text.parse().ok()?;
            let fits = match ty {
                Type::Ipv4Addr => address.is_ipv4(),
                Type::Ipv6Addr => address.is_ipv6(),
                _ => true,
            };
            fits.then_some(Value::Ip(address))?
        }
        (Type::SocketAddrV4 | Type::SocketAddrV6 | Type::SocketAddr, json) => {
            let address = socket(json)?;
            let fits = match ty {
                Type::SocketAddrV4 => address.is_ipv4(),
                Type::SocketAddrV6 => address.is_ipv6(),
                _ => true,
            };
            fits.then(|| Value::Socket(Box::new(address)))?
        }
        _ => return None,
    })
}

fn socket(json: &Json) -> Option<SocketAddr> {
    let (text, flowinfo) = match json {
        Json::Text(text) => (text, None),
        Json::Object(members) => match &members[..] {
            [(address, Json::Text(text)), (flowinfo, Json::Number(number))]
                if address == "address" && flowinfo == "flowinfo" =>
            {
                (text, Some(number.parse().ok()?))
            }
            _ => return None,
        },
        _ => return None,
    };
    let mut address: SocketAddr = text.parse().ok()?;
    match (&mut address, flowinfo) {
        (SocketAddr::V6(v6), Some(flowinfo)) => v6.set_flowinfo(flowinfo),
        (_, Some(_)) => return None,
        _ => {}
    }
    Some(address)
}

/// A number from its digits, which may be a string in JSON.
fn number(number: Number, text: &str, json: &Json) -> Option<Value> {
    match number {
        Number::F32 => self::float(
            text,
            json,
            |text| text.parse().ok().filter(|value: &f32| value.is_finite()).map(f32::to_bits),
            f32::NAN.to_bits(),
            f32::INFINITY.to_bits(),
            f32::NEG_INFINITY.to_bits(),
            |bits| u32::try_from(bits).ok().filter(|bits| f32::from_bits(*bits).is_nan()),
        )
        .map(Value::F32),
        Number::F64 => self::float(
            text,
            json,
            |text| text.parse().ok().filter(|value: &f64| value.is_finite()).map(f64::to_bits),
            f64::NAN.to_bits(),
            f64::INFINITY.to_bits(),
            f64::NEG_INFINITY.to_bits(),
            |bits| Some(bits).filter(|bits| f64::from_bits(*bits).is_nan()),
        )
        .map(Value::F64),
        _ if text.is_empty() || !text.bytes().all(|each| each.is_ascii_digit() || each == b'-') => None,
        _ if number.is_signed() => {
            let (value, shift): (i128, _) = (text.parse().ok()?, 128 - 8 * number.size() as u32);
            ((value << shift) >> shift == value).then_some(Value::Signed(value))
        }
        _ => {
            let (value, shift): (u128, _) = (text.parse().ok()?, 128 - 8 * number.size() as u32);
            ((value << shift) >> shift == value).then_some(Value::Unsigned(value))
        }
    }
}

/// The bits of a float. Digits are a number in JSON; the rest a string.
fn float<B>(
    text: &str,
    json: &Json,
    finite: impl Fn(&str) -> Option<B>,
    nan: B,
    infinity: B,
    negative: B,
    other_nan: impl Fn(u64) -> Option<B>,
) -> Option<B> {
    match (json, text) {
        (Json::Number(_), digits) => finite(digits),
        (_, "NaN") => Some(nan),
        (_, "inf") => Some(infinity),
        (_, "-inf") => Some(negative),
        (_, text) => {
            let bits = text.strip_prefix("NaN(0x")?.strip_suffix(')')?;
            other_nan(u64::from_str_radix(bits, 16).ok()?)
        }
    }
}
