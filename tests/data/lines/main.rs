// One hot line, in a function that is inlined into a closure; the rest is the standard library's.
#[inline(always)]
fn mixed(value: u64) -> u64 {
    value.wrapping_mul(6364136223846793005).rotate_left(17) ^ 0x9e37 // here: mixed
}

fn main() {
    let mut sum = 1u64;
    for _ in 0..400 {
        sum = (0..2_000_000).fold(sum, |state, _| std::hint::black_box(mixed(state)));
    }
    println!("{sum}");
}
