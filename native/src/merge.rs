//! Merges a delta into a body: `sowline.model.merge` for plain objects.

use crate::canonical::push_name;
use crate::json::{Field, Kind, fields};

/// How many levels of objects are merged here; Python merges deeper ones, or refuses them.
const LEVELS_MAX: u32 = 100;

/// Append `old` with the fields of `delta` merged into it to `out`. Returns None if only Python can.
pub fn merge(old: &[u8], delta: &[Field<'_>], out: &mut Vec<u8>) -> Option<()> {
    merge_level(old, delta, out, LEVELS_MAX)
}

fn merge_level(old: &[u8], delta: &[Field<'_>], out: &mut Vec<u8>, levels: u32) -> Option<()> {
    let levels = levels.checked_sub(1)?;
    let mut held = Vec::with_capacity(16);
    fields(old, &mut held)?;
    out.push(b'{');
    let mut is_first = true;
    for field in &held {
        begin(field.name, out, &mut is_first);
        match delta.iter().find(|change| change.name == field.name) {
            None => out.extend_from_slice(field.value),
            Some(change) if change.kind == Kind::Object && field.kind == Kind::Object => {
                let mut inner = Vec::with_capacity(16);
                fields(change.value, &mut inner)?;
                merge_level(field.value, &inner, out, levels)?;
            }
            Some(change) => out.extend_from_slice(change.value),
        }
    }
    for change in delta {
        if !held.iter().any(|field| field.name == change.name) {
            begin(change.name, out, &mut is_first);
            out.extend_from_slice(change.value);
        }
    }
    out.push(b'}');
    Some(())
}

fn begin(name: &[u8], out: &mut Vec<u8>, is_first: &mut bool) {
    if !std::mem::replace(is_first, false) {
        out.push(b',');
    }
    push_name(name, out);
}
