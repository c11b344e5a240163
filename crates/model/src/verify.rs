//! Whether a program is sound: everything that running its ops relies on, checked once for all executors, and
//! whether what they read is there.

use crate::program::{
    Attention, Indexer, KvLayer, Node, Norm, Op, Output, Program, Projection, View, Weight, WeightId,
};
use crate::routing::{Groups, Routing};

mod adapters;
mod recurrent;

/// A node that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The index of the node.
    pub node: usize,
    /// The kind of its op.
    pub kind: &'static str,
    /// What is wrong.
    pub what: String,
}

/// Checks every node of a program, and where it leaves its logits.
pub fn verify(program: &Program) -> Result<(), Misfit> {
    for (node, Node { op, .. }) in program.nodes.iter().enumerate() {
        let first = node == 0 || !matches!(op, Op::Input { .. });
        ensure(first, || "it is not the first op".to_string())
            .and_then(|()| check(program, op))
            .map_err(|what| Misfit { node, kind: op.kind(), what })?;
    }
    let width = program.logits.width;
    let wide = program.output != Output::Logits || width == program.vocabulary;
    let logits = width == 0 || is_inside(program, program.logits) && wide;
    ensure(logits, || "the logits are not a view as wide as the vocabulary".to_string())
        .map_err(|what| Misfit { node: program.nodes.len(), kind: "logits", what })
}

/// Checks that every op reads only what an op of the program wrote before it: nothing that another has consumed,
/// nothing of rows that were not gathered. What is wrong there would be wrong in some steps only.
pub fn verify_flow(program: &Program) -> Result<(), Misfit> {
    let mut written: Vec<Vec<bool>> =
        program.buffers.iter().map(|buffer| vec![false; buffer.width]).collect();
    let columns = |view: View| view.offset..view.offset + view.width;
    let is_written =
        |written: &[Vec<bool>], view: View| written[view.buffer][columns(view)].iter().all(|w| *w);
    for (node, Node { op, .. }) in program.nodes.iter().enumerate() {
        if let Some(view) = op.inputs().into_iter().find(|view| !is_written(&written, *view)) {
            let name = program.buffers[view.buffer].name;
            let what = format!("reads columns {:?} of {name}, which nothing has written", columns(view));
            return Err(Misfit { node, kind: op.kind(), what });
        }
        if op.gathers() {
            written.iter_mut().for_each(|buffer| buffer.fill(false));
        }
        op.consumed().into_iter().for_each(|view| written[view.buffer][columns(view)].fill(false));
        op.outputs().into_iter().for_each(|view| written[view.buffer][columns(view)].fill(true));
    }
    ensure(program.logits.width == 0 || is_written(&written, program.logits), || {
        "nothing wrote them".to_string()
    })
    .map_err(|what| Misfit { node: program.nodes.len(), kind: "logits", what })
}

/// The weights that ops use as vectors.
pub fn vectors(program: &Program) -> impl Iterator<Item = WeightId> {
    program.nodes.iter().flat_map(|node| node.op.vectors())
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn is_apart(a: View, b: View) -> bool {
    !a.overlaps(b)
}

fn is_inside(program: &Program, view: View) -> bool {
    program.buffers.get(view.buffer).is_some_and(|buffer| {
        view.offset.checked_add(view.width).is_some_and(|end| end <= buffer.width) && view.width > 0
    })
}

/// Checks everything that running an op relies on.
pub(crate) fn check(program: &Program, op: &Op) -> Result<(), String> {
    let views = op.inputs().into_iter().chain(op.outputs());
    for view in views {
        ensure(is_inside(program, view), || format!("{view:?} is not inside a buffer"))?;
    }
    match op {
        Op::Input { views } => views.iter().enumerate().try_for_each(|(i, view)| {
            let whole = program.buffers[view.buffer].width == view.width;
            let once = views[..i].iter().all(|other| other.buffer != view.buffer);
            ensure(whole && once, || format!("{view:?} is not a whole buffer, or comes twice"))
        }),
        Op::Embed { table, out } => table_of(program, *table, program.vocabulary, *out),
        Op::AddPositions { table, x } => table_of(program, *table, program.context, *x),
        Op::AddVector { table, x } => table_of(program, *table, 1, *x),
        Op::Norm { norm, heads, input, out } => {
            ensure(input == out || is_apart(*input, *out), || "input and output overlap".to_string())?;
            ensure(input.width == out.width, || "input and output differ in width".to_string())?;
            let width = head_width(*out, *heads)?;
            match weight_of(program, norm.weight)?.rows {
                1 => norm_of(program, norm, width),
                // Each head has factors of its own.
                _ => norm_of_heads(program, norm, *heads, width),
            }
        }
        Op::Center { heads, input, out } => {
            head_width(*out, *heads)?;
            let fits = input.width == out.width && is_apart(*input, *out);
            ensure(fits, || "input and output overlap or differ in width".to_string())
        }
        Op::Linear { parts, input, out } => {
            let mut rows = 0;
            for part in parts {
                one_matrix(program, part.weight)?;
                rows += part_of(program, part, *input)?;
            }
            ensure(rows == out.width, || format!("{rows} outputs for {} columns", out.width))?;
            ensure(input.buffer != out.buffer, || "input and output share a buffer".to_string())
        }
        Op::GatedLinear { gate, up, input, out, .. } => {
            [gate, up].into_iter().try_for_each(|part| one_matrix(program, part.weight))?;
            let rows = [part_of(program, gate, *input)?, part_of(program, up, *input)?];
            ensure(rows == [out.width; 2], || format!("{rows:?} outputs for {} columns", out.width))?;
            ensure(input.buffer != out.buffer, || "input and output share a buffer".to_string())
        }
        Op::Rope { rope, heads, x } => rope_of(program, *rope, head_width(*x, *heads)?),
        Op::KvWrite { cache, key, value } => cache_of(program, *cache, *key, *value).map(|_| ()),
        Op::Attention { attention, query, out } => {
            let Attention { cache, heads, causal, window, chunk, sinks, chosen, .. } = *attention;
            let layer = layer_of(program, cache)?;
            let fits = heads > 0
                && heads.is_multiple_of(layer.heads)
                && query.width == heads * layer.key_dim
                && out.width == heads * layer.value_dim;
            ensure(fits, || "heads do not match the cache".to_string())?;
            ensure(window != Some(0), || "a window without a position".to_string())?;
            ensure(chunk.is_none_or(|chunk| chunk > 0 && causal), || {
                "chunks both ways or of nothing".to_string()
            })?;
            sinks.map_or(Ok(()), |sinks| vector_of(program, sinks, heads))?;
            ensure(chosen.is_none_or(|_| causal && window.is_none() && chunk.is_none()), || {
                "positions are chosen of a window, a chunk or both ways".to_string()
            })?;
            ensure(chosen.is_none_or(|chosen| is_apart(chosen, *out)), || {
                "chosen positions and output overlap".to_string()
            })?;
            ensure(is_apart(*query, *out), || "query and output overlap".to_string())
        }
        Op::Choose { indexer, query, weights, out } => {
            let Indexer { cache, heads } = *indexer;
            let layer = layer_of(program, cache)?;
            let fits = layer.heads == 1 && query.width == heads * layer.key_dim && weights.width == heads;
            ensure(fits, || "heads do not match the cache".to_string())?;
            // Every position is a whole number in f32.
            ensure(program.context <= 1 << f32::MANTISSA_DIGITS, || "too long a context".to_string())?;
            let apart = is_apart(*query, *out) && is_apart(*weights, *out);
            ensure(apart, || "inputs and output overlap".to_string())
        }
        Op::Activate { gate, up, out, .. } => {
            [Some(*gate), *up].into_iter().flatten().try_for_each(|input| {
                ensure(input.width == out.width, || "input and output differ in width".to_string())?;
                ensure(is_apart(input, *out), || "input and output overlap".to_string())
            })
        }
        Op::Add { x, y } => added(*x, *y),
        // A view inside its buffer is all that they need.
        Op::Map { .. } | Op::Pool { .. } => Ok(()),
        Op::Unzip { heads, input, outs } => {
            let total: usize = outs.iter().map(|out| out.width).sum();
            ensure(total == input.width, || "the pieces are not the whole".to_string())?;
            outs.iter().enumerate().try_for_each(|(i, out)| {
                head_width(*out, *heads)?;
                let apart = is_apart(*input, *out) && outs[..i].iter().all(|other| is_apart(*other, *out));
                ensure(apart, || "input and outputs overlap".to_string())
            })
        }
        Op::Zip { heads, first, second, out } => {
            let (head, piece) = (head_width(*out, *heads)?, head_width(*first, *heads)?);
            let rest = head.saturating_sub(piece);
            let fits = rest > 0 && (second.width == rest || second.width == heads * rest);
            ensure(fits, || "the pieces are not the whole".to_string())?;
            ensure(is_apart(*first, *out) && is_apart(*second, *out), || {
                "inputs and output overlap".to_string()
            })
        }
        Op::UnitNorm { heads, like, x, .. } => {
            let width = head_width(*x, *heads)?;
            let fits = like.is_none_or(|like| like.width == width && is_apart(like, *x));
            ensure(fits, || "what it is to be as long as overlaps, or differs in width".to_string())
        }
        Op::ScaleColumns { weight, input, out } => {
            let fits = input.width == out.width && is_apart(*input, *out);
            ensure(fits, || "input and output overlap or differ in width".to_string())?;
            vector_of(program, *weight, out.width)
        }
        Op::Blend { shares, x, y, out } => {
            let weight = weight_of(program, *shares)?;
            let fits = [x.width, y.width] == [weight.columns; 2] && out.width == weight.size();
            ensure(fits, || format!("{} is not shares of {} columns", weight.name, x.width))?;
            ensure(is_apart(*x, *out) && is_apart(*y, *out), || "inputs and output overlap".to_string())
        }
        Op::Dot { heads, x, y, out } => {
            head_width(*x, *heads)?;
            let fits = x.width == y.width && out.width == *heads;
            ensure(fits, || "inputs and output do not match".to_string())?;
            ensure(is_apart(*x, *out) && is_apart(*y, *out), || "inputs and output overlap".to_string())
        }
        Op::Sparsify { x, .. } => ensure(x.width > 1, || "one value has no deviation".to_string()),
        Op::MixStreams { coefficients, input, out } => {
            let streams = coefficients.width.isqrt();
            head_width(*out, streams)?;
            let fits = streams * streams == coefficients.width && input.width == out.width;
            ensure(fits, || "coefficients, input and output do not match".to_string())?;
            let apart = is_apart(*coefficients, *out) && is_apart(*input, *out);
            ensure(apart, || "inputs and output overlap".to_string())
        }
        Op::CorrectStreams { coefficients, truth, input, out } => {
            let fits = head_width(*out, coefficients.width)? == truth.width && input.width == out.width;
            ensure(fits, || "coefficients, truth, input and output do not match".to_string())?;
            let apart = [coefficients, truth, input].iter().all(|view| is_apart(**view, *out));
            ensure(apart, || "inputs and output overlap".to_string())
        }
        Op::Shift { .. }
        | Op::Convolve { .. }
        | Op::Scan { .. }
        | Op::DeltaRule { .. }
        | Op::Wkv { .. }
        | Op::Keep { .. } => recurrent::check(program, op),
        Op::Gate { gate, x, .. } => {
            ensure(is_apart(*gate, *x), || "gate and what it opens overlap".to_string())?;
            head_width(*x, gate.width).map(|_| ())
        }
        Op::Route { routing, scores, out } => {
            let Routing { used, groups, bias, factors, .. } = *routing;
            let experts = scores.width;
            ensure((1..=experts).contains(&used) && out.width == 2 * used, || {
                format!("{used} of {experts} experts in {} columns", out.width)
            })?;
            if let Some(Groups { count, used: groups_used }) = groups {
                let fits = experts.is_multiple_of(count.max(1)) && (1..=count).contains(&groups_used);
                ensure(fits && groups_used * (experts / count.max(1)) >= used, || {
                    format!("{used} experts of {groups_used} of {count} groups of {experts}")
                })?;
            }
            [bias, factors].into_iter().flatten().try_for_each(|id| vector_of(program, id, experts))?;
            ensure(is_apart(*scores, *out), || "scores and choice overlap".to_string())
        }
        Op::ExpertLinear { parts, choice, input, out } => {
            let experts =
                parts.first().map_or(Ok(0), |part| weight_of(program, part.weight).map(|w| w.experts));
            let used = choice.map_or(experts, used_of)?;
            let mut rows = 0;
            let shape = |part: &Projection| {
                weight_of(program, part.weight).map(|weight| (weight.experts, weight.columns))
            };
            for part in parts {
                let width = weight_of(program, part.weight)?.columns;
                ensure(shape(part)? == shape(&parts[0])?, || "experts of several shapes".to_string())?;
                let fits = input.width == width || input.width == used * width;
                ensure(fits, || format!("{} inputs for experts of {width} columns", input.width))?;
                rows += used * part_of(program, part, View { width, ..*input })?;
            }
            ensure(rows == out.width, || format!("{rows} outputs for {} columns", out.width))?;
            let alone = input.buffer != out.buffer && choice.is_none_or(|choice| choice.buffer != out.buffer);
            ensure(alone, || "input and output share a buffer".to_string())
        }
        Op::Weigh { choice, input, out } => weighed(*choice, *input, *out),
        Op::Combine { choice, input, out, .. } => weighed(*choice, *out, *input),
        Op::AddNorm { x, y, norm, out } => {
            added(*x, *y)?;
            let fits = out.width == x.width && is_apart(*x, *out) && is_apart(*y, *out);
            ensure(fits, || "the sum and its norm overlap or differ in width".to_string())?;
            norm_of(program, norm, out.width)
        }
        Op::RopeKvWrite { cache, heads, query_rope, key_rope, query_norm, key_norm, query, key, value } => {
            let layer = cache_of(program, *cache, *key, *value)?;
            // Keys are rotated here or on their way to the cache, values as they are.
            let apart = is_apart(*query, *key) && is_apart(*query, *value) && is_apart(*key, *value);
            ensure(apart, || "query, key and value overlap".to_string())?;
            ensure(head_width(*query, *heads)? == layer.key_dim, || {
                "query and key heads differ".to_string()
            })?;
            rope_of(program, *query_rope, layer.key_dim)?;
            rope_of(program, *key_rope, layer.key_dim)?;
            let [query_rope, key_rope] = [query_rope, key_rope].map(|rope| &program.ropes[*rope]);
            let alike =
                query_rope.pairing == key_rope.pairing && query_rope.dimensions == key_rope.dimensions;
            ensure(alike, || "queries and keys turn in different pairs".to_string())?;
            [query_norm, key_norm].into_iter().flatten().try_for_each(|n| norm_of(program, n, layer.key_dim))
        }
        Op::AdapterScales { out } => adapters::scales_of(program, *out),
        Op::AddLowRank { parts, choice, scales, input, x } => {
            adapters::scales_of(program, *scales)?;
            let apart = [Some(*scales), Some(*input), *choice].into_iter().flatten().all(|v| is_apart(v, *x));
            ensure(apart, || "it reads what it changes".to_string())?;
            adapters::parts_of(program, parts, *choice, *input, *x)
        }
        // Rows move up view by view: a column that moved twice would be another row's.
        Op::Gather { views } => views.iter().enumerate().try_for_each(|(i, view)| {
            let once = views[..i].iter().all(|other| is_apart(*view, *other));
            ensure(once, || format!("{view:?} overlaps another"))
        }),
    }
}

fn head_width(view: View, heads: usize) -> Result<usize, String> {
    ensure(heads > 0 && view.width.is_multiple_of(heads), || {
        format!("{heads} heads in {} columns", view.width)
    })?;
    Ok(view.width / heads)
}

/// How many experts a choice names.
fn used_of(choice: View) -> Result<usize, String> {
    ensure(choice.width.is_multiple_of(2), || "a choice without a weight for each expert".to_string())?;
    Ok(choice.width / 2)
}

/// That there is one of `each` for every expert in `all`.
fn weighed(choice: View, each: View, all: View) -> Result<(), String> {
    let used = used_of(choice)?;
    let apart = is_apart(each, all) && is_apart(choice, each) && is_apart(choice, all);
    ensure(apart && all.width == used * each.width, || {
        format!("{} columns for {used} experts of {}, or views that overlap", all.width, each.width)
    })
}

fn added(x: View, y: View) -> Result<(), String> {
    ensure(x.width == y.width && is_apart(x, y), || "addends overlap or differ in width".to_string())
}

fn weight_of(program: &Program, id: WeightId) -> Result<&Weight, String> {
    program.weights.get(id).ok_or_else(|| format!("there is no weight {id}"))
}

fn one_matrix(program: &Program, id: WeightId) -> Result<(), String> {
    let weight = weight_of(program, id)?;
    ensure(weight.experts == 1, || format!("{} has {} matrices", weight.name, weight.experts))
}

fn vector_of(program: &Program, id: WeightId, width: usize) -> Result<(), String> {
    let weight = weight_of(program, id)?;
    ensure(weight.experts == 1 && weight.rows == 1 && weight.columns == width, || {
        format!("{} is not a vector of {width}", weight.name)
    })
}

fn table_of(program: &Program, id: WeightId, entries: usize, out: View) -> Result<(), String> {
    let weight = weight_of(program, id)?;
    ensure(weight.rows >= entries && weight.columns == out.width, || {
        format!("{} is not a table of {entries} times {}", weight.name, out.width)
    })
}

fn norm_of(program: &Program, norm: &Norm, width: usize) -> Result<(), String> {
    [Some(norm.weight), norm.bias].into_iter().flatten().try_for_each(|id| vector_of(program, id, width))
}

fn norm_of_heads(program: &Program, norm: &Norm, heads: usize, width: usize) -> Result<(), String> {
    let weight = weight_of(program, norm.weight)?;
    ensure(norm.bias.is_none() && weight.rows == heads && weight.columns == width, || {
        format!("{} is not {heads} vectors of {width}", weight.name)
    })
}

/// The outputs of a part.
fn part_of(program: &Program, part: &Projection, input: View) -> Result<usize, String> {
    let weight = weight_of(program, part.weight)?;
    ensure(weight.columns == input.width, || {
        format!("{} has {} columns for {} inputs", weight.name, weight.columns, input.width)
    })?;
    if let Some(bias) = part.bias {
        let found = weight_of(program, bias)?;
        let fits = [found.experts, found.rows, found.columns] == [1, weight.experts, weight.rows];
        ensure(fits, || format!("{} is not a bias of {}", found.name, weight.name))?;
    }
    Ok(weight.rows)
}

fn rope_of(program: &Program, rope: usize, width: usize) -> Result<(), String> {
    let rope = program.ropes.get(rope).ok_or_else(|| format!("there is no rotary table {rope}"))?;
    ensure(rope.dimensions <= width && rope.frequencies.len() * 2 == rope.dimensions, || {
        format!("{} rotary dimensions in heads of {width}", rope.dimensions)
    })
}

fn layer_of(program: &Program, cache: usize) -> Result<KvLayer, String> {
    let layer = program.caches.get(cache).copied().ok_or_else(|| format!("there is no cache {cache}"))?;
    ensure(layer.heads > 0 && layer.key_dim > 0 && layer.value_dim > 0, || "an empty cache".to_string())?;
    Ok(layer)
}

fn cache_of(program: &Program, cache: usize, key: View, value: View) -> Result<KvLayer, String> {
    let layer = layer_of(program, cache)?;
    let fits = key.width == layer.heads * layer.key_dim && value.width == layer.heads * layer.value_dim;
    ensure(fits, || "keys and values do not match the cache".to_string())?;
    Ok(layer)
}
