//! The kinds of words, and the headings of their lists.

/// The kind of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A counter of /proc/vmstat that only grows: reports show end - start.
    Counter,
    /// A level of /proc/vmstat: reports show the value at the end.
    Level,
    /// A counter kept for each zone, as `NAME_dma32`.
    ZoneCounter,
    /// A counter of real kernels that the engine does not have.
    RealCounter,
    /// A figure of the workload.
    Metric,
    /// An activity or wait that a task spends time on.
    Time,
    /// A question with its answer.
    Question,
    /// A word of reports from real Linux.
    Report,
}

impl Kind {
    /// Returns the heading of the list of this kind's words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Counter => "Counters (a report has end - start)",
            Self::Level => "Levels",
            Self::ZoneCounter => "Counters of each zone, as NAME_dma32",
            Self::RealCounter => "Counters of real kernels only",
            Self::Metric => "Figures of the workload",
            Self::Time => "Where a task's time goes",
            Self::Question => "Questions",
            Self::Report => "Words of reports from Linux",
        }
    }

    /// Every kind, in the order in which they are listed.
    pub const ALL: [Self; 8] = [
        Self::Question,
        Self::Report,
        Self::Metric,
        Self::Time,
        Self::Counter,
        Self::ZoneCounter,
        Self::RealCounter,
        Self::Level,
    ];
}
