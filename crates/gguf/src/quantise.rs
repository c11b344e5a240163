//! From values to blocks: which encoder makes the blocks of a format, and what it refuses.

use half::bf16;

use crate::formats::{
    encode_blocks, iq1, iq2, iq3, iq4, mxfp4, plain, q2_k, q3_k, q4, q4_k, q5, q5_k, q6_k, q8, ternary,
    without_importance,
};
use crate::{Error, Format, Result};

impl Format {
    /// Encodes a row of values as whole blocks. Q4_0 to Q8_0, F16, BF16, TQ1_0, TQ2_0 and MXFP4 give the
    /// bytes that PyPI `gguf` gives; the K formats and IQ4_NL search for scales of small error.
    ///
    /// Fails when the format cannot be encoded, when the values are not whole blocks or `out` has not
    /// their length, when a value is not finite (F32, F16 and BF16 can store such values), and when one
    /// is too large for the format.
    pub fn encode(self, values: &[f32], out: &mut [u8]) -> Result<()> {
        self.encode_by(values, None, out)
    }

    /// The same, where an error in one value matters more than in another: `importance` has a number for each value,
    /// such as the mean square of what it will be multiplied with, none of them negative. All formats of fewer than
    /// eight bits but MXFP4 and the ternary ones search for scales of small weighted error; the others have no choice.
    pub fn encode_weighted(self, values: &[f32], importance: &[f32], out: &mut [u8]) -> Result<()> {
        if importance.len() != values.len() {
            return Err(Error::Unsupported(format!(
                "{} values have an importance, {} are there",
                importance.len(),
                values.len()
            )));
        }
        if let Some(i) = importance.iter().position(|number| !(number.is_finite() && *number >= 0.0)) {
            let number = importance[i];
            return Err(Error::Unsupported(format!("the importance of value {i} is {number}")));
        }
        self.encode_by(values, Some(importance), out)
    }

    fn encode_by(self, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) -> Result<()> {
        let bytes = self.row_bytes(values.len())?;
        if out.len() != bytes {
            return Err(Error::Unsupported(format!(
                "{} values of {self} take {bytes} bytes, not {}",
                values.len(),
                out.len()
            )));
        }
        if self.groups().is_some()
            && let Some(i) = values.iter().position(|value| !value.is_finite())
        {
            return Err(Error::Unsupported(format!("value {i} is {}: {self} cannot store it", values[i])));
        }
        let encoded = match self {
            Format::F32 => plain::encode(values, out, |value| Some(value.to_le_bytes())),
            Format::F16 => plain::encode(values, out, plain::f16_bytes),
            Format::BF16 => plain::encode(values, out, |value| Some(bf16::from_f32(value).to_le_bytes())),
            Format::Q4_0 => encode_blocks(q4::encode_0, values, importance, out),
            Format::Q4_1 => encode_blocks(q4::encode_1, values, importance, out),
            Format::Q5_0 => encode_blocks(q5::encode_0, values, importance, out),
            Format::Q5_1 => encode_blocks(q5::encode_1, values, importance, out),
            Format::Q8_0 => without_importance(q8::encode_0, values, out),
            Format::Q2_K => encode_blocks(q2_k::encode, values, importance, out),
            Format::Q3_K => encode_blocks(q3_k::encode, values, importance, out),
            Format::Q4_K => encode_blocks(q4_k::encode, values, importance, out),
            Format::Q5_K => encode_blocks(q5_k::encode, values, importance, out),
            Format::Q6_K => encode_blocks(q6_k::encode, values, importance, out),
            Format::Q8_K => without_importance(q8::encode_k, values, out),
            Format::IQ1_S => encode_blocks(iq1::encode_s, values, importance, out),
            Format::IQ1_M => encode_blocks(iq1::encode_m, values, importance, out),
            Format::IQ2_XXS => encode_blocks(iq2::encode_xxs, values, importance, out),
            Format::IQ2_XS => encode_blocks(iq2::encode_xs, values, importance, out),
            Format::IQ2_S => encode_blocks(iq2::encode_s, values, importance, out),
            Format::IQ3_XXS => encode_blocks(iq3::encode_xxs, values, importance, out),
            Format::IQ3_S => encode_blocks(iq3::encode_s, values, importance, out),
            Format::IQ4_NL => encode_blocks(iq4::encode_nl, values, importance, out),
            Format::IQ4_XS => encode_blocks(iq4::encode_xs, values, importance, out),
            Format::TQ1_0 => without_importance(ternary::encode_1, values, out),
            Format::TQ2_0 => without_importance(ternary::encode_2, values, out),
            Format::MXFP4 => without_importance(mxfp4::encode, values, out),
            _ => {
                return Err(Error::Unsupported(format!(
                    "{self} cannot be encoded; these can: F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K \
                     Q4_K Q5_K Q6_K Q8_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4"
                )));
            }
        };
        encoded.map_err(|block| {
            let from = block * self.block_len();
            let largest =
                values[from..][..self.block_len()].iter().fold(0.0, |most: f32, v| most.max(v.abs()));
            Error::Unsupported(format!("values {from}.. reach {largest:e}, which is too large for {self}"))
        })
    }
}
