// One hot line, in a function that is inlined into a closure; the rest is the standard library's.
const M: u64 = 6364136223846793005;

#[inline(always)]
fn mixed(value: u64) -> u64 {
    value.wrapping_mul(M).rotate_left(17).wrapping_mul(M).rotate_left(19).wrapping_mul(M).rotate_left(23).wrapping_mul(M).rotate_left(29).wrapping_mul(M).rotate_left(31).wrapping_mul(M).rotate_left(37).wrapping_mul(M).rotate_left(41).wrapping_mul(M) ^ 0x9e37 // here: mixed
}

fn main() {
    let mut sum = 1u64;
    for _ in 0..120 {
        sum = (0..2_000_000).fold(sum, |state, _| std::hint::black_box(mixed(state)));
    }
    println!("{sum}");
}
