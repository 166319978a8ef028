//! The command line: a mode and `--name value` pairs. `main` reads it.

use crate::Failure;
use crate::socket::Address;
use std::time::Duration;

/// All options; a mode ignores those that it does not use.
pub struct Options {
    /// The server's address, or where `serve` listens.
    pub address: Address,
    /// Connections that send requests all the time.
    pub connections: usize,
    /// Connections that are open and idle.
    pub idle: usize,
    /// For `churn`: connections that echo all the time beside it.
    pub busy: usize,
    /// For `churn`: nine of ten connections are reset before they get a reply.
    pub reset: bool,
    /// Bytes of a message.
    pub size: usize,
    /// How long is measured.
    pub span: Duration,
    /// How long is not measured, before that.
    pub warmup: Duration,
    /// The server's process.
    pub pid: Option<libc::pid_t>,
    /// For `http` and `websocket`.
    pub path: String,
    /// For `http`: the body of a right reply.
    pub expect: String,
    /// For `http`: the body of a POST; without one it is a GET.
    pub body: String,
}

impl Options {
    /// The mode and its options.
    pub fn read(mut words: impl Iterator<Item = String>) -> Result<(String, Self), Failure> {
        let mode = words
            .next()
            .ok_or("no mode: echo, http, websocket, churn, serve or wakes")?;
        let mut options = Self {
            address: Address::Tcp(String::new()),
            connections: 1,
            idle: 0,
            busy: 0,
            reset: false,
            size: 1024,
            span: Duration::from_secs(1),
            warmup: Duration::from_millis(100),
            pid: None,
            path: "/".into(),
            expect: String::new(),
            body: String::new(),
        };
        let mut addressed = false;
        while let Some(name) = words.next() {
            if name == "--reset" {
                options.reset = true;
                continue;
            }
            let value = words.next().ok_or(format!("{name} has no value"))?;
            match name.as_str() {
                "--to" | "--at" => {
                    options.address = value.parse()?;
                    addressed = true;
                }
                "--connections" => options.connections = number(&name, &value)?,
                "--idle" => options.idle = number(&name, &value)?,
                "--busy" => options.busy = number(&name, &value)?,
                "--size" => options.size = number(&name, &value)?,
                "--seconds" => options.span = seconds(&name, &value)?,
                "--warmup" => options.warmup = seconds(&name, &value)?,
                "--pid" => options.pid = Some(number(&name, &value)?),
                "--path" => options.path = value,
                "--expect" => options.expect = value,
                "--body" => options.body = value,
                _ => return Err(format!("no such option: {name}")),
            }
        }
        if !addressed && mode != "wakes" {
            return Err("no address: --to tcp:127.0.0.1:8000".into());
        }
        if options.connections == 0 {
            return Err("--connections must be at least 1".into());
        }
        Ok((mode, options))
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Failure> {
    value
        .parse()
        .map_err(|_| format!("{name}: {value} is no such number"))
}

fn seconds(name: &str, value: &str) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(number(name, value)?).map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<(String, Options), Failure> {
        Options::read(line.split_whitespace().map(String::from))
    }

    #[test]
    fn a_whole_line() {
        let (mode, options) =
            read("churn --to unix:/tmp/x --connections 7 --reset --seconds 0.5 --pid 1").unwrap();
        assert_eq!(mode, "churn");
        assert_eq!(options.connections, 7);
        assert!(options.reset);
        assert_eq!(options.span, Duration::from_millis(500));
        assert_eq!(options.pid, Some(1));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("", "no mode"),
            ("echo", "no address"),
            ("echo --to tcp:h:1 --size", "--size has no value"),
            ("echo --to tcp:h:1 --size big", "big is no such number"),
            ("echo --to tcp:h:1 --seconds -1", "--seconds"),
            ("echo --to tcp:h:1 --connections 0", "at least 1"),
            ("echo --to ftp:h:1", "ftp"),
            ("echo --fast yes", "no such option: --fast"),
        ] {
            let failure = read(line).err().unwrap();
            assert!(failure.contains(part), "{line}: {failure}");
        }
    }
}
