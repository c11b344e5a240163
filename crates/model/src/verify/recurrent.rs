//! What recurrent ops rely on: states with a channel for each column, and inputs that match them.

use super::{ensure, head_width, is_apart, vector_of, weight_of};
use crate::program::{Op, Program, StateLayer, View, WeightId};
use crate::recurrence::{Convolution, Decay, DeltaRule, Scan, Wkv};

/// Checks a recurrent op; all others have nothing of the kind.
pub(super) fn check(program: &Program, op: &Op) -> Result<(), String> {
    match op {
        Op::Shift { state, input, out } => {
            let layer = state_of(program, *state, *out)?;
            is_read_before(&[*input], *out)?;
            let fits = layer.rows == 1 && input.width == out.width;
            ensure(fits, || "input, output and state do not match".to_string())
        }
        Op::Convolve { convolution, input, out } => {
            let Convolution { state, taps, bias, .. } = *convolution;
            let layer = state_of(program, state, *out)?;
            is_read_before(&[*input], *out)?;
            ensure(input.width == out.width, || "input and output differ in width".to_string())?;
            channels_of(program, taps, out.width, layer.rows + 1)?;
            bias.map_or(Ok(()), |bias| vector_of(program, bias, out.width))
        }
        Op::Scan { scan, x, dt, b, c, out } => {
            let Scan { state, heads, groups, decay, dt_bias, skip } = *scan;
            let layer = state_of(program, state, *out)?;
            is_read_before(&[*x, *dt, *b, *c], *out)?;
            head_width(*out, heads)?;
            let fits = groups > 0
                && heads.is_multiple_of(groups)
                && x.width == out.width
                && dt.width == heads
                && b.width == groups * layer.rows
                && c.width == b.width;
            ensure(fits, || "inputs do not match heads, groups and state".to_string())?;
            let of_head = weight_of(program, decay)?.size() == heads;
            channels_of(program, decay, heads, if of_head { 1 } else { layer.rows })?;
            channels_of(program, skip, heads, 1)?;
            dt_bias.map_or(Ok(()), |bias| vector_of(program, bias, heads))
        }
        Op::DeltaRule { rule, query, key, value, alpha, beta, out } => {
            let DeltaRule { state, heads, key_heads, decay, .. } = *rule;
            let layer = state_of(program, state, *out)?;
            is_read_before(&[*query, *key, *value, *alpha, *beta], *out)?;
            head_width(*out, heads)?;
            let steps = if decay.is_some() { heads } else { heads * layer.rows };
            let fits = key_heads > 0
                && heads.is_multiple_of(key_heads)
                && value.width == out.width
                && [alpha.width, beta.width] == [steps, heads]
                && [query.width, key.width] == [key_heads * layer.rows; 2];
            ensure(fits, || "inputs do not match heads and state".to_string())?;
            decay.map_or(Ok(()), |decay| decay_of(program, decay, heads, heads))
        }
        Op::Wkv { wkv, query, kept, key, value, asked, removed, out } => {
            let Wkv { state, heads } = *wkv;
            let layer = state_of(program, state, *out)?;
            is_read_before(&[*query, *kept, *key, *value, *asked, *removed], *out)?;
            head_width(*out, heads)?;
            let keys = [query, kept, key, asked, removed].map(|view| view.width);
            let fits = value.width == out.width && keys == [heads * layer.rows; 5];
            ensure(fits, || "inputs do not match heads and state".to_string())
        }
        Op::Keep { decay, x } => {
            let heads = weight_of(program, decay.decay)?.size();
            head_width(*x, heads)?;
            decay_of(program, *decay, heads, x.width)
        }
        _ => Ok(()),
    }
}

/// A weight with `each` values for each channel or head.
fn channels_of(program: &Program, id: WeightId, channels: usize, each: usize) -> Result<(), String> {
    let weight = weight_of(program, id)?;
    let fits = weight.rows == channels && weight.columns == each;
    ensure(fits || each == 1 && weight.rows == 1 && weight.columns == channels, || {
        format!("{} does not have {each} values for each of {channels} channels", weight.name)
    })
}

/// A decay for each head, and a bias for each time step.
fn decay_of(program: &Program, decay: Decay, heads: usize, steps: usize) -> Result<(), String> {
    channels_of(program, decay.decay, heads, 1)?;
    vector_of(program, decay.dt_bias, steps)
}

/// A state with a channel for each column.
fn state_of(program: &Program, state: usize, out: View) -> Result<StateLayer, String> {
    let layer = program.states.get(state).copied().ok_or_else(|| format!("there is no state {state}"))?;
    ensure(layer.rows > 0 && layer.columns == out.width, || {
        format!("a state of {} times {} for {} channels", layer.rows, layer.columns, out.width)
    })?;
    Ok(layer)
}

/// Inputs of earlier rows are read when a row is written.
fn is_read_before(inputs: &[View], out: View) -> Result<(), String> {
    ensure(inputs.iter().all(|input| is_apart(*input, out)), || "input and output overlap".to_string())
}
