//! Escapes text from outside (names, experiment files, error messages) for HTML and JSON.

use std::fmt::Write;

/// Escapes text so that it can stand in an HTML element or in a double- or single-quoted attribute.
pub(crate) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // NUL is not allowed in HTML at all; U+FFFD is what a browser would make of it.
            '\0' => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

/// Escapes JSON for a `<script type="application/json">` element.
///
/// The HTML parser ends that element at `</script` and switches to another state at `<!--`,
/// whatever the script's language, and entities are not decoded inside. The characters that matter
/// occur in JSON only within strings, where an escape means the same.
pub(super) fn json_in_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 64);
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            html(r#"<b class="x">'&'</b>"#),
            "&lt;b class=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/b&gt;"
        );
    }

    proptest! {
        #[test]
        fn json_survives_and_cannot_end_its_element(text in "[\\PC<>&!/\u{2028}\u{2029}\u{0}-]{0,40}") {
            let hostile = format!("</script><!--<script>{text}");
            let json = json_in_script(&serde_json::to_string(&hostile).unwrap());
            let dangerous = ['<', '>', '&', '\u{2028}', '\u{2029}'];
            prop_assert!(!json.contains(dangerous));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
        }
    }
}
