//! What a change on the way makes of a tensor's shape and rows, with the sizes of heads that the configuration says.
//! Whatever it says, an order that comes of it stays inside the tensor.

use crate::config::Config;
use crate::names::How;
use crate::recipe::{Change, Factors, Order, Transposed};

/// A tensor after a change: its shape, slowest dimension first, and how its rows and values come about.
pub struct Shaped {
    pub shape: Vec<usize>,
    pub order: Order,
    pub change: Change,
}

type Result<T> = std::result::Result<T, String>;

/// A tensor of this shape after a change; the error says what its shape is not.
pub fn shaped(how: How, mut shape: Vec<usize>, config: &Config) -> Result<Shaped> {
    if let How::GateUp(_) | How::Down = how {
        return shaped(by_width(how, &shape, config)?, shape, config);
    }
    if shape.is_empty() {
        shape.push(1);
    }
    if shape.contains(&0) {
        return Err("has no values".into());
    }
    let change = match how {
        How::PlusOne => Change::Plus(1.0),
        How::NegativeExp | How::ColumnNegativeExp | How::ValueDecays => Change::NegativeExp,
        How::Times(keys) => Change::Times(factors(keys, config)?),
        How::ScanInputs => Change::Times(scan_factors(config, &shape)?),
        _ => Change::None,
    };
    let order = match how {
        How::AsIs
        | How::GateUp(_)
        | How::Down
        | How::Skipped
        | How::Blocks(..)
        | How::PlusOne
        | How::NegativeExp
        | How::Times(_)
        | How::ScanInputs => Order::AsIs,
        How::Queries => paired(config.heads(), &shape)?,
        How::Keys => paired(config.kv_heads(), &shape)?,
        How::Part(number, of) => {
            let Some(rows) = shape.len().checked_sub(2).map(|at| &mut shape[at]) else {
                return Err("has no rows".into());
            };
            let (all, count) = (*rows, cut(*rows, of)?);
            *rows = count;
            Order::Part { first: number * count, count, of: all }
        }
        How::Transposed => match &mut shape[..] {
            [.., rows, columns] => transposed(rows, columns, (0, 1), false)?,
            _ => Order::AsIs,
        },
        How::TransposedPart(number, of) | How::TransposedEvery(number, of) => {
            let [.., rows, columns] = &mut shape[..] else { return Err("is not a matrix".into()) };
            transposed(rows, columns, (number, of), matches!(how, How::TransposedEvery(..)))?
        }
        How::Every(first, step) => {
            if let Some(last) = shape.last_mut() {
                *last = cut(*last, step)?;
            }
            Order::Every { first, step }
        }
        How::Column | How::ColumnNegativeExp => {
            shape.push(1);
            Order::AsIs
        }
        How::InGroups => {
            let groups =
                config.size(&["n_groups", "mamba_n_groups"]).map_err(|error| error.to_string())?.unwrap_or(1)
                    as usize;
            let values = shape.iter().product();
            shape = vec![groups, cut(values, groups)?];
            Order::AsIs
        }
        How::Padded => {
            let size = config.require_size(&["vocab_size"]).map_err(|error| error.to_string())? as usize;
            let known = shape[0];
            // A few tokens of images and sounds, never most of the table.
            if size > known.saturating_mul(2) {
                return Err(format!("is not one of {size} tokens"));
            }
            shape[0] = size.max(known);
            if known < size { Order::Padded(known) } else { Order::AsIs }
        }
        How::AfterPadding => {
            let first = config.padding().map_err(|error| error.to_string())? as usize;
            let of = shape[0];
            let count = of.checked_sub(first).filter(|&count| count > 0);
            let count = count.ok_or_else(|| format!("has no rows after {first}"))?;
            shape[0] = count;
            Order::Part { first, count, of }
        }
        How::Convolution => {
            shape.retain(|&length| length != 1);
            let [channels, taps] = shape[..] else { return Err("is not one of channels and taps".into()) };
            shape = vec![1, channels, 1, taps];
            Order::AsIs
        }
        How::Squeezed => {
            shape.retain(|&length| length != 1);
            Order::AsIs
        }
        How::Grouped => grouped(config, &shape)?,
        How::LatentKeys | How::LatentValues => latent(how, config, &mut shape)?,
        How::LinearQueries | How::LinearGate => sorted(how, config, &mut shape)?,
        How::Values
        | How::ValuesAfterKeys
        | How::ConvolvedValues
        | How::ValueHeads
        | How::ValueDecays
        | How::ValueColumns => {
            if how == How::ConvolvedValues {
                shape.retain(|&length| length != 1);
            }
            tiled(how, config, &shape)?
        }
    };
    Ok(Shaped { shape, order, change })
}

/// Which way experts lie.
fn by_width(how: How, shape: &[usize], config: &Config) -> Result<How> {
    let width = config.require_size(&["hidden_size"]).map_err(|error| error.to_string())? as usize;
    let [_, rows, columns] = shape[..] else { return Err("is not one of experts".into()) };
    match how {
        How::GateUp(number) if columns == width => Ok(How::Part(number, 2)),
        How::GateUp(number) if rows == width => Ok(How::TransposedPart(number, 2)),
        How::Down if rows == width => Ok(How::AsIs),
        How::Down if columns == width => Ok(How::Transposed),
        _ => Err(format!("is not one of a model {width} wide")),
    }
}

/// A factor of the configuration, 1 where it says none; a number after a point is a place in a list.
fn factor(key: &str, config: &Config) -> Result<f32> {
    let (name, place) = match key.split_once('.') {
        Some((name, place)) => (name, place.parse::<usize>().ok()),
        None => (key, None),
    };
    let said = config.value(&[name]).map(|value| match place {
        Some(place) => value.get(place).and_then(|value| value.as_f64()),
        None => value.as_f64(),
    });
    match said {
        None => Ok(1.0),
        Some(Some(factor)) => Ok(factor as f32),
        Some(None) => Err(format!("has a factor {key} that is no number")),
    }
}

/// Factors of all rows.
fn factors(keys: &[&str], config: &Config) -> Result<Factors> {
    let mut all = [1.0; 2];
    for (place, key) in all.iter_mut().zip(keys) {
        *place = factor(key, config)?;
    }
    Ok(Factors { all, parts: [(0, 1.0); 5] })
}

/// Factors of gates, inputs, both vectors and steps of a scan.
fn scan_factors(config: &Config, shape: &[usize]) -> Result<Factors> {
    let told = |key: &str| match config.require_size(&[key]) {
        Ok(size) => Ok(size as usize),
        Err(error) => Err(error.to_string()),
    };
    let (inner, steps) = (told("mamba_d_ssm")?, told("mamba_n_heads")?);
    let vector = told("mamba_n_groups")?.saturating_mul(told("mamba_d_state")?);
    let mut parts = [(inner, 1.0), (inner, 1.0), (vector, 1.0), (vector, 1.0), (steps, 1.0)];
    if shape[0] != parts.iter().fold(0usize, |sum, (rows, _)| sum.saturating_add(*rows)) {
        return Err(format!("is not one of {steps} heads of a scan"));
    }
    for (number, (_, place)) in parts.iter_mut().enumerate() {
        *place = factor(&format!("ssm_multipliers.{number}"), config)?;
    }
    Ok(Factors { all: [factor("ssm_in_multiplier", config)?, 1.0], parts })
}

/// One of `of` equal parts of a number.
fn cut(number: usize, of: usize) -> Result<usize> {
    match number.checked_rem(of) {
        Some(0) => Ok(number / of),
        _ => Err(format!("cannot be cut into {of} parts")),
    }
}

fn paired(heads: crate::Result<u32>, shape: &[usize]) -> Result<Order> {
    let heads = heads.map_err(|error| error.to_string())? as usize;
    let rows = cut(shape[0], heads)?;
    if rows.is_multiple_of(2) {
        Ok(Order::Paired(rows))
    } else {
        Err(format!("is not one of {heads} even heads"))
    }
}

/// The `number`-th of `of` parts of the columns as rows: those next to each other, or in turns.
fn transposed(
    rows: &mut usize,
    columns: &mut usize,
    (number, of): (usize, usize),
    in_turns: bool,
) -> Result<Order> {
    let taken = cut(*columns, of.max(1))?;
    let (from, step) = if in_turns { (number, of) } else { (number * taken, 1) };
    let order = Transposed { columns: *columns, from, step, taken, rows: *rows, first: 0 };
    (*rows, *columns) = (taken, *rows);
    Ok(Order::Transposed(order))
}

/// Query heads, a key head and a value head in turns.
fn grouped(config: &Config, shape: &[usize]) -> Result<Order> {
    let heads = || Ok::<_, crate::Error>((config.heads()? as usize, config.kv_heads()? as usize));
    let (heads, groups) = heads().map_err(|error| error.to_string())?;
    let (queries, rows) = (cut(heads, groups)?, cut(shape[0], groups)?);
    let head = cut(rows, queries + 2)?;
    let parts = [(0, queries * head), (queries * head, head), ((queries + 1) * head, head)];
    Ok(Order::Gathered { groups, rows, parts })
}

/// Of the matrix that turns latent vectors into keys and values of all heads, either.
fn latent(how: How, config: &Config, shape: &mut Vec<usize>) -> Result<Order> {
    let told = |key: &str| config.require_size(&[key]).map(|size| size as usize);
    let sizes =
        || Ok::<_, crate::Error>((config.heads()? as usize, told("qk_nope_head_dim")?, told("v_head_dim")?));
    let (heads, keys, values) = sizes().map_err(|error| error.to_string())?;
    let [rows, rank] = shape[..] else { return Err("is not a matrix".into()) };
    let both = keys + values;
    if keys == 0 || values == 0 || heads.checked_mul(both) != Some(rows) {
        return Err(format!("is not one of {heads} heads of {keys} and {values} values"));
    }
    if how == How::LatentValues {
        *shape = vec![heads, values, rank];
        return Ok(Order::Part { first: keys, count: values, of: both });
    }
    *shape = vec![heads, rank, keys];
    Ok(Order::Transposed(Transposed { columns: rank, from: 0, step: 1, taken: rank, rows: both, first: 0 }))
}

/// The sizes of linear attention.
struct Linear {
    key_heads: usize,
    /// Value heads for each key head.
    each: usize,
    key: usize,
    value: usize,
}

impl Linear {
    fn read(config: &Config) -> Result<Linear> {
        let told = |key: &str| match config.require_size(&[key]) {
            // No model has heads beyond this, and products of four such numbers fit.
            Ok(size) if (1..1 << 15).contains(&size) => Ok(size as usize),
            Ok(size) => Err(format!("cannot be one of a model whose {key} is {size}")),
            Err(error) => Err(error.to_string()),
        };
        let (key_heads, values) = (told("linear_num_key_heads")?, told("linear_num_value_heads")?);
        let (key, value) = (told("linear_key_head_dim")?, told("linear_value_head_dim")?);
        Ok(Linear { key_heads, each: cut(values, key_heads)?, key, value })
    }
}

/// Query, key, values and gates of a key head, head after head: all queries, keys and values, or all gates.
fn sorted(how: How, config: &Config, shape: &mut [usize]) -> Result<Order> {
    let Linear { key_heads: groups, each, key, value } = Linear::read(config)?;
    let rows = 2 * (key + each * value);
    if shape[0] != groups * rows {
        return Err(format!("is not one of {groups} heads of {rows} rows"));
    }
    let (values, gates) = (2 * key, 2 * key + each * value);
    let parts = match how {
        How::LinearGate => [(gates, each * value), (0, 0), (0, 0)],
        _ => [(0, key), (key, key), (values, each * value)],
    };
    shape[0] = groups * parts.iter().map(|(_, length)| length).sum::<usize>();
    Ok(Order::Gathered { groups, rows, parts })
}

/// Value heads by key head become the first of every key head, then the second, and so on.
fn tiled(how: How, config: &Config, shape: &[usize]) -> Result<Order> {
    let Linear { key_heads: groups, each, key, value } = Linear::read(config)?;
    let kept = if matches!(how, How::ValuesAfterKeys | How::ConvolvedValues) { 2 * groups * key } else { 0 };
    let head = if matches!(how, How::ValueHeads | How::ValueDecays) { 1 } else { value };
    let length = if how == How::ValueColumns { *shape.last().unwrap_or(&0) } else { shape[0] };
    if length != kept + groups * each * head {
        return Err(format!("is not one of {} value heads", groups * each));
    }
    let tiled = crate::recipe::Tiled { kept, groups, each, head };
    Ok(if how == How::ValueColumns { Order::TiledColumns(tiled) } else { Order::Tiled(tiled) })
}
