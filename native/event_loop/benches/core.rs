//! The time that the core's operations take: `cargo bench --package event_loop --bench core`.
//! `make bench` puts it into the page.

mod operations;

use criterion::{Criterion, criterion_group, criterion_main};
use std::time::Instant;

fn core(criterion: &mut Criterion) {
    for (name, prepare) in operations::ALL {
        let mut repeat = prepare();
        criterion.bench_function(name, |bencher| {
            bencher.iter_custom(|count| {
                let began = Instant::now();
                repeat(count);
                began.elapsed()
            });
        });
    }
}

criterion_group!(benches, core);
criterion_main!(benches);
