//! Affine maps with weights stored `[out, in]`.

use super::Kernels;
use burn::tensor::{Tensor, activation};

/// What follows the affine map in the same pass.
#[derive(Clone, Debug)]
pub enum Epilogue {
    /// Nothing.
    None,
    /// max(0, y).
    Relu,
    /// y Phi(y), with the exact error function.
    Gelu,
    /// Adds a tensor of the output's shape.
    Add(Tensor<3>),
}

/// x [B, T, in], weight [out, in], bias [out] -> [B, T, out].
pub fn linear(_kernels: Kernels, x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>, epilogue: Epilogue) -> Tensor<3> {
    let y = composed(x, weight, bias);
    match epilogue {
        Epilogue::None => y,
        Epilogue::Relu => activation::relu(y),
        Epilogue::Gelu => activation::gelu(y),
        Epilogue::Add(other) => y + other,
    }
}

fn composed(x: Tensor<3>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<3> {
    let [batch, tokens, inputs] = x.dims();
    let outputs = weight.dims()[0];
    let y = x.reshape([batch * tokens, inputs]).matmul(weight.transpose()); // [B*T, out]
    let y = match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    };
    y.reshape([batch, tokens, outputs]) // [B, T, out]
}
