//! The lines of a job file: sections, keys and values, comments, variables and included files.

use super::setting::{FioError, Setting};

/// The world around a job file, from which its variables and included files come.
pub trait Surroundings {
    /// Returns the value of a variable of the environment; `None`: it is not set.
    fn variable(&self, name: &str) -> Option<String>;
    /// Returns the text of a file that `include` names.
    ///
    /// # Errors
    /// The file can't be read; the reason in words.
    fn included(&self, path: &str) -> Result<String, String>;
}

/// Surroundings without variables and files, for texts that are complete in themselves.
pub struct Alone;

impl Surroundings for Alone {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn included(&self, _: &str) -> Result<String, String> {
        Err("a job file from this source can't include others".to_owned())
    }
}

/// The most files that include one another in a chain.
const DEEPEST: usize = 16;

/// The sections of a job file as its lines are read.
pub(super) struct Sections {
    /// Each job: the line with its name, and the settings of the global sections before it and its
    /// own, in the order of the file.
    pub jobs: Vec<(Setting, Vec<Setting>)>,
    /// Lines that can't be read.
    pub errors: Vec<FioError>,
    /// Whether a line was expanded, so that the text does not stand for itself.
    pub expanded: bool,
    global: Vec<Setting>,
    /// The kind of the section that the lines belong to: `Some(true)`: global.
    in_global: Option<bool>,
}

/// The place of a line: the bytes of the job file that an error points at, the line's number there,
/// and the included file that the line is from.
#[derive(Clone)]
struct At {
    span: std::ops::Range<usize>,
    line: usize,
    file: Option<String>,
}

impl Sections {
    /// Reads the lines of a job file.
    pub fn read(text: &str, around: &dyn Surroundings) -> Self {
        let mut sections = Self {
            jobs: Vec::new(),
            errors: Vec::new(),
            expanded: false,
            global: Vec::new(),
            in_global: None,
        };
        sections.lines(text, around, None, 0);
        sections
    }

    /// Reads the lines of a text: of the job file itself, or of one that the line `from` includes,
    /// whose errors point at that line.
    fn lines(&mut self, text: &str, around: &dyn Surroundings, from: Option<&At>, depth: usize) {
        let mut end = 0;
        for (number, raw) in text.split_inclusive('\n').enumerate() {
            let start = end + raw.len() - raw.trim_start().len();
            end += raw.len();
            let line = uncommented(raw);
            if line.is_empty() {
                continue;
            }
            let at = match from {
                None => At {
                    span: start..start + line.len(),
                    line: number + 1,
                    file: None,
                },
                Some(at) => At {
                    file: at
                        .file
                        .as_ref()
                        .map(|file| format!("{file}:{}", number + 1)),
                    ..at.clone()
                },
            };
            self.line(line, at, around, depth);
        }
    }

    /// Reads one line without its comment: the head of a section, an `include`, or a key.
    fn line(&mut self, line: &str, at: At, around: &dyn Surroundings, depth: usize) {
        let mut setting = Setting {
            key: line.to_owned(),
            value: None,
            span: at.span.clone(),
            line: at.line,
            file: at.file.clone(),
            base: 1024,
        };
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.rsplit_once(']').map(|(name, _)| name.trim());
            let Some(name) = name.filter(|name| !name.is_empty()) else {
                let e = setting.error("is not a section", "[global] or [NAME]");
                return self.errors.push(e);
            };
            name.clone_into(&mut setting.key);
            self.in_global = Some(name == "global");
            if name != "global" {
                // A job inherits from the global sections before it.
                self.jobs.push((setting, self.global.clone()));
            }
            return;
        }
        let word = line.split([' ', '\t']).next();
        if let Some(path) = line
            .strip_prefix("include")
            .filter(|_| word == Some("include"))
        {
            return self.include(path.trim(), &setting, at, around, depth);
        }
        if let Some((key, value)) = line.split_once('=') {
            setting.key = key.trim().to_owned();
            setting.value = Some(value.trim().to_owned());
        }
        match self.expanded(&setting, around) {
            Ok(value) => setting.value = value,
            Err(e) => return self.errors.push(e),
        }
        match (self.in_global, self.jobs.last_mut()) {
            (Some(true), _) => self.global.push(setting),
            (Some(false), Some((_, settings))) => settings.push(setting),
            _ => {
                let e = setting.error("comes before the first section", "[global] or [NAME]");
                self.errors.push(e);
            }
        }
    }

    /// Reads the lines of an included file.
    fn include(
        &mut self,
        path: &str,
        setting: &Setting,
        at: At,
        around: &dyn Surroundings,
        depth: usize,
    ) {
        self.expanded = true;
        let accepted = "include PATH of a file beside the job file";
        if path.is_empty() || depth == DEEPEST {
            let what = format!("more than {DEEPEST} files include one another, or no path");
            return self.errors.push(setting.error(what, accepted));
        }
        match around.included(path) {
            Ok(text) => {
                let from = At {
                    file: Some(path.to_owned()),
                    ..at
                };
                self.lines(&text, around, Some(&from), depth + 1);
            }
            Err(e) => self.errors.push(setting.error(e, accepted)),
        }
    }

    /// Returns a setting's value with the variables of the environment (`${NAME}`) and fio's
    /// `$pagesize` replaced. fio's other words of this kind depend on the machine, which a job
    /// file does not know here.
    fn expanded(
        &mut self,
        setting: &Setting,
        around: &dyn Surroundings,
    ) -> Result<Option<String>, FioError> {
        let Some(value) = setting.value.as_deref() else {
            return match setting.key.contains("${") {
                true => Err(setting.error("a variable in a key", "variables in values")),
                false => Ok(None),
            };
        };
        let mut text = String::new();
        let mut rest = value;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, behind)) = after.split_once('}') else {
                return Err(setting.error("a variable without its `}`", "${NAME}"));
            };
            let Some(found) = around.variable(name) else {
                return Err(setting.error(
                    format!("the variable `{name}` is not set"),
                    format!("{name} in the environment"),
                ));
            };
            text += before;
            text += &found;
            rest = behind;
        }
        text += rest;
        if text.contains("$pagesize") {
            text = text.replace("$pagesize", "4096");
        }
        for word in ["$mb_memory", "$ncpus"] {
            if text.contains(word) {
                let what = format!("`{word}` depends on the machine, which differs between runs");
                return Err(setting.error(what, "a number, or ${NAME} from the environment"));
            }
        }
        self.expanded |= text != value;
        Ok(Some(text))
    }

    /// Returns the text of a job file that has the same jobs, without variables and included files.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (head, settings) in &self.jobs {
            text += &format!("[{}]\n", head.key);
            for s in settings {
                text += &s.key;
                if let Some(value) = &s.value {
                    text += "=";
                    text += value;
                }
                text += "\n";
            }
        }
        text
    }
}

/// Returns a line without the white space around it and without its comment: all from the first
/// `;` or `#`, also behind a value.
fn uncommented(line: &str) -> &str {
    let end = line.find([';', '#']).unwrap_or(line.len());
    line[..end].trim()
}

/// Returns the job file that the words of a fio command line stand for, such as `--name=x
/// --rw=randread`: options before the first `--name` belong to all jobs, and each `--name` begins a
/// job. Every word is a line of the text, after the heads of the sections.
///
/// # Errors
/// A word that is no option, with what would be accepted.
pub fn arguments(line: &str) -> Result<String, FioError> {
    let mut text = String::from("[global]\n");
    for (at, word) in words(line) {
        let error = |message: &str, accepted: &str| FioError {
            span: at..at + word.len(),
            line: 1,
            message: format!("`{word}`: {message}"),
            accepted: accepted.to_owned(),
        };
        let Some(option) = word.strip_prefix("--").filter(|o| !o.is_empty()) else {
            return Err(error(
                "is no option of fio",
                "--KEY=VALUE or --KEY; `--fio` runs a job file",
            ));
        };
        if option.contains(['\n', '\r', ';', '#']) {
            return Err(error(
                "has a character that begins a comment",
                "--KEY=VALUE",
            ));
        }
        match option.strip_prefix("name=") {
            Some(name) if name.is_empty() || name == "global" || name.contains(']') => {
                return Err(error("is no name of a job", "--name=NAME"));
            }
            Some(name) => text += &format!("[{name}]\n"),
            None => text += &format!("{option}\n"),
        }
    }
    if !text.contains("\n[") {
        return Err(FioError {
            span: 0..line.len(),
            line: 1,
            message: "no job is named".to_owned(),
            accepted: "--name=NAME before a job's options".to_owned(),
        });
    }
    Ok(text)
}

/// Splits a command line at white space outside of quotes; returns each word, without its quotes,
/// with the place of its first byte.
fn words(line: &str) -> Vec<(usize, String)> {
    let mut words: Vec<(usize, String)> = Vec::new();
    let (mut quote, mut open) = (None, false);
    for (at, c) in line.char_indices() {
        if quote == Some(c) {
            quote = None;
            continue;
        }
        if quote.is_none() && c.is_whitespace() {
            open = false;
            continue;
        }
        if !open {
            words.push((at, String::new()));
            open = true;
        }
        match (quote, c, words.last_mut()) {
            (None, '"' | '\'', _) => quote = Some(c),
            (_, c, Some((_, word))) => word.push(c),
            _ => {}
        }
    }
    words
}
