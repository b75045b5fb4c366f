//! Any text in the place of a series' patches makes an experiment, or a message.
#![no_main]

use lab::diagnostic::Source;
use lab::published::files;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let find = |name: &str| {
        let text = files::find(name).ok_or("there is no such file")?;
        Ok((name.to_owned(), text.to_owned()))
    };
    let _ = lab::attribute::parse(&Source::new("patches.toml", text), &find, &[]);
});
