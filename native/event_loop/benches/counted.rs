//! One operation of the core, repeated: NAME COUNT. Without a name, prints the names.
//! bench/counting.py runs it under valgrind; the difference of two counts is the operation's own
//! number of instructions, whatever else the machine does.

mod operations;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let Some(name) = words.next() else {
        for (name, _) in operations::ALL {
            println!("{name}");
        }
        return;
    };
    let count = words.next().and_then(|word| word.parse().ok());
    let operation = operations::ALL.iter().find(|(known, _)| *known == name);
    let (Some(count), Some((_, prepare))) = (count, operation) else {
        eprintln!("counted NAME COUNT; the names are printed without arguments");
        std::process::exit(2);
    };
    prepare()(count);
}
