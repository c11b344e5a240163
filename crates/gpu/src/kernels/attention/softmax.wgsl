// The softmax of one span, or of all spans up to one: the largest score and Σ e^(score - largest).
struct Softmax {
    largest: f32,
    sum: f32,
}

// The softmax of both, and the factors of what each has accumulated: fma(acc, before, span · after).
struct Merged {
    softmax: Softmax,
    before: f32,
    after: f32,
}

fn merge(whole: Softmax, span: Softmax, first: bool) -> Merged {
    if first {
        return Merged(span, 0.0, 1.0);
    }
    let largest = max(whole.largest, span.largest);
    let before = exponential(whole.largest - largest);
    let after = exponential(span.largest - largest);
    return Merged(Softmax(largest, fma(whole.sum, before, span.sum * after)), before, after);
}
