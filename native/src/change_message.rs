//! The messages `publish` and `oof`: `sowline.subscriptions.engine.change_message` and `sowline.wire.server_message`.

use crate::escapes::write_text;
use crate::log_record::TIME_MAX;
use crate::number::push;
use crate::position::Position;

/// The first time of a date, in ms since 1970: the begin of the year 1.
const TIME_MIN: i64 = -62_135_596_800_000;

const DAY_MS: i64 = 86_400_000;

/// What is the same in all messages of a topic's changes.
pub struct Topic {
    /// The name as JSON.
    pub name: Vec<u8>,
    pub log: Vec<u8>,
}

/// What is the same in all messages of a change.
pub struct Sent<'a> {
    pub sow_key: &'a [u8],
    pub partition: i64,
    pub position: Position<i64>,
    pub time: i64,
    pub correlation: Option<&'a [u8]>,
}

/// Append the part of a message that is before the topic; `removed` makes it a delta.
pub fn push_prefix(
    command: &[u8],
    sids: &[&[u8]],
    removed: Option<&[u8]>,
    reason: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"command\":\"");
    out.extend_from_slice(command);
    out.extend_from_slice(b"\",\"sids\":[");
    for (at, sid) in sids.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(sid);
    }
    out.push(b']');
    if let Some(removed) = removed {
        out.extend_from_slice(b",\"delta\":true");
        if !removed.is_empty() {
            out.extend_from_slice(b",\"removed\":");
            out.extend_from_slice(removed);
        }
    }
    if let Some(reason) = reason {
        out.extend_from_slice(b",\"reason\":");
        write_text(reason, out);
    }
}

/// Append the rest of a message.
pub fn push_suffix(
    topic: &Topic,
    sent: &Sent<'_>,
    has_sow_key: bool,
    has_timestamp: bool,
    body: &[u8],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b",\"topic\":");
    out.extend_from_slice(&topic.name);
    if has_sow_key {
        out.extend_from_slice(b",\"sow_key\":");
        write_text(sent.sow_key, out);
    }
    if has_timestamp {
        out.extend_from_slice(b",\"timestamp\":\"");
        push_iso_time(sent.time, out);
        out.push(b'"');
    }
    out.extend_from_slice(b",\"bookmark\":\"");
    out.extend_from_slice(&topic.log);
    out.push(b':');
    push(sent.partition, out);
    out.push(b'@');
    sent.position.write_whole(out);
    out.push(b'"');
    if let Some(correlation) = sent.correlation {
        out.extend_from_slice(b",\"correlation_id\":");
        write_text(correlation, out);
    }
    out.extend_from_slice(b",\"data\":");
    out.extend_from_slice(body);
    out.push(b'}');
}

/// Append a time in ms since 1970 as ISO-8601 in UTC with microseconds; of a time that no date can express, the first
/// or the last one.
fn push_iso_time(ms: i64, out: &mut Vec<u8>) {
    let ms = ms.clamp(TIME_MIN, TIME_MAX);
    let (year, month, day) = date_of(ms.div_euclid(DAY_MS));
    let of_day = ms.rem_euclid(DAY_MS);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, fraction) = (of_day / 1000 % 60, of_day % 1000);
    let text = format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}000Z"
    );
    out.extend_from_slice(text.as_bytes());
}

/// Return year, month and day, so many days after the begin of 1970. The year is taken to begin in March.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}
