//! The products of matrices that a device computes in one instruction: what their elements are, and how many.

use std::fmt;

/// What the elements of a matrix are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// 16-bit floats.
    F16,
    /// 32-bit floats.
    F32,
    /// Signed bytes.
    I8,
    /// Signed integers of 32 bits.
    I32,
    /// Unsigned integers of 32 bits.
    U32,
}

impl Element {
    fn of(scalar: wgpu::CooperativeScalarType) -> Element {
        match scalar {
            wgpu::CooperativeScalarType::F16 => Element::F16,
            wgpu::CooperativeScalarType::F32 => Element::F32,
            wgpu::CooperativeScalarType::I32 => Element::I32,
            wgpu::CooperativeScalarType::U32 => Element::U32,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Element::F16 => "f16",
            Element::F32 => "f32",
            Element::I8 => "i8",
            Element::I32 => "i32",
            Element::U32 => "u32",
        })
    }
}

/// A product of an m x k matrix with a k x n matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixShape {
    /// Rows of the first matrix, and of the product.
    pub m: u32,
    /// Columns of the second matrix, and of the product.
    pub n: u32,
    /// Columns of the first matrix, and rows of the second.
    pub k: u32,
    /// The elements of both matrices.
    pub operands: Element,
    /// Those of the product.
    pub sums: Element,
}

impl MatrixShape {
    pub(crate) fn of(properties: &wgpu::CooperativeMatrixProperties) -> MatrixShape {
        MatrixShape {
            m: properties.m_size,
            n: properties.n_size,
            k: properties.k_size,
            operands: Element::of(properties.ab_type),
            sums: Element::of(properties.cr_type),
        }
    }
}

impl fmt::Display for MatrixShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MatrixShape { m, n, k, operands, sums } = self;
        write!(f, "{m}x{n}x{k} {operands} to {sums}")
    }
}
