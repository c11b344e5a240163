//! Several residual streams, of which each layer computes one and predicts and corrects the others (AltUp), in the
//! builder's vocabulary, and what goes with them: LAuReL and sparse activations.

use super::{Bias, Builder};
use crate::Result;
use crate::program::{Activation, Map, Op, View};

/// The residual streams of a model, one after the other in a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams {
    pub count: usize,
    /// What layers begin and end with.
    pub all: View,
    /// What is expected of a layer.
    pub predicted: View,
}

impl Streams {
    /// One of them.
    pub fn stream(self, index: usize) -> View {
        let width = self.all.width / self.count;
        self.all.part(index * width, width)
    }

    /// All but the first, which is the one that layers compute.
    fn rest(self) -> View {
        let width = self.all.width / self.count;
        self.all.part(width, self.all.width - width)
    }
}

/// Added to the square of a length that is divided by: rows of zeros stay what they are.
const LENGTH_EPSILON: f32 = 1e-12;

impl Builder<'_> {
    /// Streams that begin with `x`: the first is x, the others are projections of it that are as long.
    pub(crate) fn streams(&mut self, count: usize, x: View) -> Result<Streams> {
        let (all, predicted) =
            (self.buffer("streams", count * x.width), self.buffer("predicted", count * x.width));
        let streams = Streams { count, all, predicted };
        self.head_linear("altup_proj", count - 1, [x.width; 2], x, streams.rest())?;
        self.as_long_as("altup_proj_length", count - 1, x, streams.rest());
        self.copy("altup_first", x, streams.stream(0));
        Ok(streams)
    }

    /// x = the mean of the streams when the layers are done, of projections but for the first, and as long as that.
    pub(crate) fn mean_of_streams(&mut self, streams: Streams, x: View) -> Result<()> {
        let rest = self.buffer("unembedded_streams", streams.rest().width);
        self.head_linear("altup_unembd_proj", streams.count - 1, [x.width; 2], streams.rest(), rest)?;
        self.as_long_as("altup_unembd_length", streams.count - 1, streams.stream(0), rest);
        self.copy("altup_mean_first", streams.stream(0), x);
        for stream in 0..streams.count - 1 {
            self.add("altup_mean_add", x, rest.part(stream * x.width, x.width));
        }
        self.map("altup_mean", Map::Scale(1.0 / streams.count as f32), x);
        Ok(())
    }

    /// Each of `heads` equal parts of x scaled to the length of another row.
    fn as_long_as(&mut self, label: &str, heads: usize, like: View, x: View) {
        self.emit(label, Op::UnitNorm { heads, epsilon: LENGTH_EPSILON, like: Some(like), x });
    }

    /// What a layer makes of the first stream is predicted of all of them: its prediction goes to x.
    pub(crate) fn predict_streams(&mut self, streams: Streams, x: View) -> Result<()> {
        let count = streams.count * streams.count;
        let coefficients =
            self.stream_coefficients("altup_predict_coef", streams, streams.stream(0), count)?;
        let (input, out) = (streams.all, streams.predicted);
        self.emit("altup_predict", Op::MixStreams { coefficients, input, out });
        self.copy("altup_active", streams.predicted.part(0, x.width), x);
        Ok(())
    }

    /// The predictions, corrected by x, what became of the first.
    pub(crate) fn correct_streams(&mut self, streams: Streams, x: View) -> Result<()> {
        let coefficients = self.stream_coefficients("altup_correct_coef", streams, x, streams.count)?;
        let (input, out) = (streams.predicted, streams.all);
        self.emit("altup_correct", Op::CorrectStreams { coefficients, truth: x, input, out });
        Ok(())
    }

    /// Coefficients of streams, by a small router: coefficients(tanh(router(norm(x) / width))).
    fn stream_coefficients(&mut self, name: &str, streams: Streams, x: View, count: usize) -> Result<View> {
        let h = self.rms_norm("altup_router_norm", x)?;
        let modalities = self.buffer("modalities", streams.count);
        self.linear("altup_router", h, modalities, Bias::Optional)?;
        self.map("altup_router_scale", Map::Scale(1.0 / x.width as f32), modalities);
        self.map("altup_router_tanh", Map::SoftCap(1.0), modalities);
        let coefficients = self.buffer("stream_coefficients", count);
        self.linear(name, modalities, coefficients, Bias::Optional)?;
        Ok(coefficients)
    }

    /// What each layer adds of its own, gated by the first stream times a vector of factors, in all others.
    pub(crate) fn add_to_other_streams(&mut self, streams: Streams, input: View) -> Result<()> {
        let width = self.config.width;
        let weight = self.required("altup_correct_scale.weight", &[width])?;
        let scaled = self.buffer("h", width);
        self.emit("altup_correct_scale", Op::ScaleColumns { weight, input: streams.stream(0), out: scaled });
        let y = self.per_layer(scaled, input)?;
        (1..streams.count).for_each(|stream| self.add("per_layer_residual", streams.stream(stream), y));
        Ok(())
    }

    /// A path beside attention of few values (LAuReL): x + norm(right(left(x))).
    pub(crate) fn laurel(&mut self, rank: usize, x: View) -> Result<View> {
        let low = self.buffer("laurel_low", rank);
        self.linear("laurel_l", x, low, Bias::Optional)?;
        let out = self.buffer("laurel", x.width);
        self.linear("laurel_r", low, out, Bias::Optional)?;
        self.rms_norm_in_place("laurel_post_norm", out)?;
        self.add("laurel_add", out, x);
        Ok(out)
    }

    /// A feed-forward layer with a gate, of which only what lies `spread` standard deviations above the mean opens.
    pub(crate) fn sparse_feed_forward(
        &mut self,
        activation: Activation,
        spread: f32,
        input: View,
    ) -> Result<View> {
        let (gate, up) = self.gate_and_up(input)?;
        self.emit("ffn_gate_sparse", Op::Sparsify { spread, x: gate });
        self.down(activation, gate, Some(up))
    }
}
