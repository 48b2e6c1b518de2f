//! The verdict in words, cut to the room there is.

use feedline_traces::window::Entity;

use crate::bind::{MISSING, Reading, plain};
use crate::panels::{AT_WORK, FINDINGS_AT};
use crate::state::State;
use crate::widgets::look::Tone;

/// Lines of the verdict: the sentence, the numbers, the advice.
pub(crate) fn said(state: &State, width: usize, height: usize) -> Vec<(String, Tone)> {
    let nothing = |text: &str| vec![(text.to_owned(), Tone::Strong)];
    if state.verdict.table.is_none() {
        return nothing("No verdict: not recorded");
    }
    let Some((entity, trainers)) = state.verdict.worst(&state.recent) else {
        return nothing("No verdict yet: watching the job");
    };
    let [text, advice, cause] =
        state.verdict.words.each_ref().map(|reading: &Reading| reading.text(&state.recent, entity));
    let tone = match cause.as_deref() {
        Some(cause) if !AT_WORK.contains(&cause) => Tone::Warn,
        _ => Tone::Strong,
    };
    let sentence = text.or(cause).unwrap_or_else(|| "No cause stands out so far.".to_owned());
    let sentence = wrap(&format!("{}: {sentence}", who(state, entity, trainers)), width);
    let advice = advice.map_or_else(Vec::new, |advice| wrap(&format!("→ {advice}"), width));
    let found = if height >= 4 { found(state, width) } else { None };
    let rest = height.saturating_sub(1 + usize::from(found.is_some()));
    let (sentences, advised) = share_out(sentence.len(), advice.len(), rest);
    let mut lines: Vec<(String, Tone)> = cut(sentence, sentences).into_iter().map(|line| (line, tone)).collect();
    lines.push((numbers(state, entity), Tone::Plain));
    lines.extend(cut(advice, advised).into_iter().map(|line| (line, Tone::Strong)));
    lines.extend(found);
    lines.truncate(height);
    lines
}

/// `▲ 2 findings: All 4 workers share core 0 of 8.`: the costliest, and how many there are.
fn found(state: &State, width: usize) -> Option<(String, Tone)> {
    let found = state.findings();
    let text = finding(state, found.first()?, 3)?;
    let many = match found.len() {
        1 => "▲ finding".to_owned(),
        n => format!("▲ {n} findings"),
    };
    let line = cut(wrap(&format!("{many}: {text}"), width), 1).pop()?;
    Some((line, Tone::Warn))
}

/// A text of a finding, by the position of its column in the panel.
pub(crate) fn finding(state: &State, entity: &Entity, column: usize) -> Option<String> {
    let reading = &state.bound[FINDINGS_AT].columns.get(column)?.reading;
    Some(reading.show(&state.recent, entity)).filter(|text| text != MISSING)
}

/// `trainer 4000 (rank 3, the worst of 8)`, or the slow one that the others wait for.
fn who(state: &State, entity: &Entity, trainers: usize) -> String {
    let key = entity.first().map_or("", |key| key.as_ref());
    let table = state.verdict.table;
    let others = table.into_iter().flat_map(|table| state.recent.entities(table)).filter_map(|e| e.first());
    let pid = plain(key, others.map(AsRef::as_ref));
    let mut said = Vec::new();
    said.extend(state.verdict.rank.number(&state.recent, entity).map(|rank| format!("rank {rank:.0}")));
    match state.verdict.slow(&state.recent) {
        Some((slow, lost)) if slow == entity => {
            said.push(format!("slow: the others wait up to {:.0} % for it", lost * 100.0));
        }
        _ => said.extend((trainers > 1).then(|| format!("the worst of {trainers}"))),
    }
    match state.judged() {
        (judged, Some(all)) if all > judged => said.push(format!("{} trainers not judged", all - judged)),
        _ => {}
    }
    if said.is_empty() { format!("trainer {pid}") } else { format!("trainer {pid} ({})", said.join(", ")) }
}

/// Share, interval, confidence, and what stands beside them.
fn numbers(state: &State, entity: &Entity) -> String {
    let [data, low, high, confidence, idle] =
        state.verdict.numbers.each_ref().map(|reading| reading.number(&state.recent, entity));
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let mut said = Vec::new();
    match (data, low, high) {
        (Some(data), Some(low), Some(high)) => {
            said.push(format!("data wait {} % ({}–{}, 95 %)", percent(data), percent(low), percent(high)));
        }
        (Some(data), _, _) => said.push(format!("data wait {} %", percent(data))),
        (None, _, _) => said.push("data wait not known".to_owned()),
    }
    said.extend(confidence.map(|confidence| format!("confidence {confidence:.2}")));
    said.extend(idle.map(|idle| format!("GPU idle {} %", percent(idle))));
    said.join(" · ")
}

/// Lines for two texts in a height: the longer gives way, the first of equals, and each keeps one.
fn share_out(mut first: usize, mut second: usize, height: usize) -> (usize, usize) {
    while first + second > height && (first > 1 || second > 1) {
        if first >= second {
            first -= 1;
        } else {
            second -= 1;
        }
    }
    (first, second)
}

fn cut(mut lines: Vec<String>, keep: usize) -> Vec<String> {
    if lines.len() > keep {
        lines.truncate(keep);
        if let Some(last) = lines.last_mut() {
            last.pop();
            last.push('…');
        }
    }
    lines
}

/// Lines of whole words; a word longer than a line is cut.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let room = width.saturating_sub(line.chars().count() + 1);
        if !line.is_empty() && word.chars().count() > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().take(width));
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_of_whole_words_and_say_when_they_are_cut() {
        let lines = wrap("waits for data most of the time", 10);
        assert_eq!(lines, ["waits for", "data most", "of the", "time"]);
        assert_eq!(cut(lines, 2), ["waits for", "data mos…"]);
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("abcdefgh", 3), ["abc"]);
    }

    #[test]
    fn both_texts_keep_a_line() {
        assert_eq!(share_out(4, 3, 5), (2, 3));
        assert_eq!(share_out(9, 1, 2), (1, 1));
        assert_eq!(share_out(1, 0, 0), (1, 0));
        assert_eq!(share_out(2, 2, 8), (2, 2));
    }
}
