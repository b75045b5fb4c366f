//! Any text as the description of a patch series makes an experiment, or an error message.
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
