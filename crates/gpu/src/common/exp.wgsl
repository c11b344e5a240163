// e^x by range reduction and a polynomial, as the reference defines it: the built-in function differs
// from device to device. Arguments are clamped, so that the result is finite and positive; what is not a number
// stays so, by its bits: min and max need not keep it, and compilers may believe that there is none.
fn exponential(argument: f32) -> f32 {
    let x = min(max(argument, -87.0), 88.0);
    let n = round(x * 1.4426950408889634);
    let r = fma(n, -1.4286068e-6, fma(n, -0.69314575, x));
    var p = 0.0013888889;
    p = fma(p, r, 0.008333334);
    p = fma(p, r, 0.041666668);
    p = fma(p, r, 0.16666667);
    p = fma(p, r, 0.5);
    p = fma(p, r, 1.0);
    p = fma(p, r, 1.0);
    let power = p * bitcast<f32>(u32(i32(n) + 127) << 23u);
    return select(power, argument, (bitcast<u32>(argument) & 0x7fffffffu) > 0x7f800000u);
}
