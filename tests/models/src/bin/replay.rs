//! Replays traces of the simulation, one JSON object a line: `replay FILE...`.

use std::process::ExitCode;
use std::{env, fs};

use sowline_models::materializer::replay::{Line, Summary, replay};

fn main() -> ExitCode {
    let mut failed = false;
    for path in env::args().skip(1) {
        match replayed(&path) {
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

fn replayed(path: &str) -> Result<Summary, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let lines: Result<Vec<Line>, _> = text.lines().map(serde_json::from_str).collect();
    replay(&lines.map_err(|error| error.to_string())?)
}
