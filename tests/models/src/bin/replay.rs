//! Replays traces of the simulation, one JSON object a line: `replay MODEL FILE...`.

use std::process::ExitCode;
use std::{env, fs};

use serde::de::DeserializeOwned;
use sowline_models::materializer;
use sowline_models::serving::{handoff, streams};
use sowline_models::trace::Summary;

type Outcome = Result<Summary, String>;

fn main() -> ExitCode {
    let mut given = env::args().skip(1);
    let replay: fn(&str) -> Outcome = match given.next().as_deref() {
        Some("materializer") => |path| replayed(path, materializer::replay::replay),
        Some("handoff") => |path| replayed(path, handoff::replay::replay),
        Some("streams") => |path| replayed(path, streams::replay::replay),
        other => {
            eprintln!("expected a model: materializer, handoff or streams; got {other:?}");
            return ExitCode::from(2);
        }
    };
    let mut failed = false;
    for path in given {
        match replay(&path) {
            Ok(Summary { events, states_max }) => {
                println!("{path}: {events} events, up to {states_max} states at once")
            }
            Err(why) => {
                failed = true;
                println!("{path}: {why}");
            }
        }
    }
    ExitCode::from(u8::from(failed))
}

fn replayed<Line: DeserializeOwned>(path: &str, replay: fn(&[Line]) -> Outcome) -> Outcome {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let lines: Result<Vec<Line>, _> = text.lines().map(serde_json::from_str).collect();
    replay(&lines.map_err(|error| error.to_string())?)
}
