//! The JSON schema of experiment files, for editors and `lowmark explain`.

use mm::sysctl::Fits;
use schemars::{JsonSchema, schema_for};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An experiment: policies compared on machines and filesystems under a workload. A list in the
/// place of one value makes an axis of the matrix.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ExperimentFile {
    /// Name of the experiment and of its results folder.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,79}$"))]
    name: String,
    /// Iterations of every cell.
    #[schemars(range(min = 1, max = 1000))]
    #[serde(default)]
    iterations: Option<u32>,
    /// The seed from which the seeds of all iterations derive.
    #[serde(default)]
    seed: Option<u64>,
    /// A preset, a name defined in [policies], or `kernel:` and the name of a built kernel; the
    /// first of a list is the baseline.
    policy: String,
    /// The filesystem under test.
    filesystem: sim::spec::FsKind,
    /// A machine file, or a table that describes a machine.
    machine: MachineRef,
    /// The back end of real kernels: "uml" (User-Mode Linux: one CPU, node and zone) or "qemu"
    /// [default: what the machines need].
    #[schemars(extend("enum" = ["uml", "qemu"]))]
    guest: Option<String>,
    /// The workload that runs.
    workload: WorkloadTable,
    /// Memory control groups (cgroup v2), in real kernels and models of 6.1 and later. A table
    /// inside a group's is a group inside it: [groups.web.worker].
    #[serde(default)]
    groups: BTreeMap<String, sim::spec::GroupSettings>,
    /// Policies defined by this experiment.
    #[serde(default)]
    policies: BTreeMap<String, PolicyTable>,
    /// Model parameters that differ from their defaults.
    #[serde(default)]
    params: BTreeMap<String, f64>,
    /// Sysctls that are written while the workload runs.
    #[serde(default)]
    at: Option<Vec<AtTable>>,
    /// Interval of the time series in simulated seconds; 0: no time series.
    #[schemars(range(min = 0, max = 3600))]
    #[serde(default)]
    sample_s: Option<f64>,
    /// Whether samplers and a trace reader run beside the workload and take CPU time and memory.
    #[serde(default)]
    monitors: Option<bool>,
    /// Rows, counters and figures of the workload that policies are compared by, the most telling
    /// one first.
    #[serde(default)]
    compare: Option<Vec<String>>,
    /// The axis whose values are compared, and the value that is the baseline, such as `baseline =
    /// { dirty_ratio = 20 }`. Without it policies are compared with the first of them; with one
    /// policy, the values of the only axis of machine, filesystem or parameters with the first.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
    #[serde(default)]
    baseline: Option<BTreeMap<String, Value>>,
    /// Simulated seconds after which a run is given up; 0: never.
    #[schemars(range(min = 0, max = 10_000_000))]
    #[serde(default)]
    time_limit_s: Option<f64>,
}

#[derive(JsonSchema)]
#[schemars(rename = "Policy")]
#[expect(dead_code, reason = "only its schema is used")]
struct PolicyTable {
    /// vm sysctls of this policy, which override the machine's.
    #[serde(default)]
    sysctl: sim::spec::Sysctl,
    #[serde(flatten)]
    switches: mm::Policy,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct AtTable {
    /// Time since the workload began: a whole number with its unit, such as `30s`, `500ms` or `2m`.
    #[schemars(regex(pattern = "^[0-9]+(us|ms|s|m)$"))]
    time: String,
    /// The sysctls that are written then, by the kernel's names.
    sysctl: sim::spec::Sysctl,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum MachineRef {
    /// A machine file, relative to the experiment's folder or a folder above it.
    File(String),
    /// A machine; with `base`, changes to a machine file.
    Table(Box<sim::spec::Machine>),
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum CommandValue {
    /// A command line of Lowmark's own programs.
    Line(String),
    /// A user's own program, which only real kernels run.
    Foreign(ForeignTable),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ForeignTable {
    /// The command line, for /bin/sh of the root folder. It starts on the tested filesystem.
    run: String,
    /// A folder with /bin/sh, the program and its libraries, relative to the experiment's file.
    root: String,
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct WorkloadTable {
    /// The name of the workload in published tables.
    #[serde(default)]
    name: Option<String>,
    /// The number of threads as published tables write it, one for each command line. A command
    /// with `$threads` runs once for each: `4X` is 4 for each CPU, `4P` or `4` is 4.
    #[serde(default)]
    threads: Option<String>,
    /// A shell command line, such as `dd if=/dev/zero of=disk/zeroes bs=32k count=$((10 << 15))`.
    #[serde(default)]
    command: Option<CommandValue>,
    /// Files that exist before the command starts: paths and sizes.
    #[serde(default)]
    files: Option<BTreeMap<String, sim::spec::Size>>,
    /// A recorded trace, relative to the experiment's folder or a folder above it.
    #[serde(default)]
    trace: Option<String>,
    /// A fio job file, relative to the experiment's folder or a folder above it.
    #[serde(default)]
    fio: Option<String>,
    /// The options of a fio command line, such as `--name=x --rw=randread --size=1g`.
    #[serde(default)]
    fio_args: Option<String>,
    /// When the trace's requests are issued: at the recorded times, or as fast as possible.
    #[serde(default)]
    timing: Option<TimingName>,
    /// Skip and count records of the trace that can't be read.
    #[serde(default)]
    lenient: Option<bool>,
    /// The trace's format, if contents and name do not tell.
    #[serde(default)]
    format: Option<FormatName>,
    /// The columns of a text trace, instead of a format: `time:us,volume,op,offset:sector,size`.
    #[serde(default)]
    columns: Option<String>,
    /// The meaning of the object numbers in libCacheSim's formats.
    #[serde(default)]
    unit: Option<UnitName>,
    /// The NUMA node that the workload's page cache and anonymous memory come from, as under
    /// `numactl --membind`. Without it memory comes from any node, from node 0 on.
    #[serde(default)]
    membind: Option<u32>,
    /// The memory control group that all programs of the workload run in; `cgexec -g GROUP PROGRAM`
    /// in a command runs one program in a group.
    #[serde(default)]
    group: Option<String>,
}

/// Makes a type whose schema is that of a text which is one of `$names`.
macro_rules! named {
    ($type:ident, $names:expr) => {
        struct $type;

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": $names })
            }
        }
    };
}

named!(TimingName, workload::Timing::NAMES);
named!(FormatName, trace::Format::NAMES);
named!(UnitName, trace::Unit::NAMES);

/// Keys that take one value only, or a list by nature.
const NO_AXIS: [&str; 18] = [
    "at",
    "name",
    "mount",
    "iterations",
    "seed",
    "sample_s",
    "time_limit_s",
    "base",
    "node",
    "memory",
    "nodes",
    "zones",
    "faults",
    "lenient",
    "format",
    "columns",
    "unit",
    "lowmem_reserve_ratio",
];

/// Returns the JSON schema of experiment files, for editors. It is derived from the Rust types;
/// then `base`, machines in words, kernels as policies, and lists that make axes are added, which
/// the types do not have.
pub fn schema() -> Value {
    let mut schema = schema_for!(ExperimentFile).to_value();
    if let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) {
        with_base(
            definitions,
            "Policy",
            &["name"],
            json!({
                "description": "The preset, or another policy of this table, that this policy changes.",
                "type": "string", "examples": mm::Policy::PRESETS,
            }),
            true,
        );
        definitions.insert("KernelPolicy".into(), kernel_policy());
        in_words(definitions);
        with_base(
            definitions,
            "Machine",
            &[],
            json!({
                "type": "string", "description": "The machine file that this table changes.",
            }),
            false,
        );
        for name in [
            "Machine",
            "Policy",
            "KernelPolicy",
            "Sysctl",
            "Boot",
            "SwapSpec",
            "DiskSpec",
            "MountedDisk",
            "SecondSpec",
            "ZoneSpec",
            "WorkloadTable",
            "GroupSettings",
            "AtTable",
        ] {
            if let Some(properties) = definitions
                .get_mut(name)
                .and_then(|d| d.get_mut("properties"))
                .and_then(Value::as_object_mut)
            {
                properties_to_axes(properties, &definition_kinds(schema_kinds()));
            }
        }
    }
    if let Some(profile) = schema.pointer_mut("/$defs/Policy/properties/profile") {
        *profile = json!({
            "description": "The watermarks of `watermarks = \"learned\"`.",
            "anyOf": [
                {
                    "type": "string",
                    "description": "The file that `lowmark tune --learn` wrote, relative to the experiment's folder or a folder above it.",
                },
                { "$ref": "#/$defs/WatermarkProfile" },
            ],
        });
    }
    for disk in ["DiskSpec", "MountedDisk"] {
        if let Some(params) = schema.pointer_mut(&format!("/$defs/{disk}/properties/params")) {
            *params = parameters(
                "Model parameters of this disk that differ from those of the run: those of its kind, and of its queue.",
            );
        }
    }
    if let Some(sysctl) = schema.pointer_mut("/$defs/AtTable/properties/sysctl") {
        *sysctl = sysctls_by_name("Sysctls that are written at this time, by the kernel's names.");
    }
    if let Some(params) = schema.pointer_mut("/$defs/Machine/properties/params") {
        *params = parameters(
            "Model parameters of its CPUs and memory that differ from those of the run.",
        );
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties_to_axes(properties, &definition_kinds(schema_kinds()));
        if let Some(params) = properties.get_mut("params") {
            *params = parameters("Model parameters that differ from their default.");
        }
        if let Some(policies) = properties.get_mut("policies") {
            *policies = policies_or_their_file();
        }
    }
    schema
}

/// Returns the JSON schema of the key `policies`: tables, the name of a file that holds them, or
/// such a file with changes.
fn policies_or_their_file() -> Value {
    json!({
        "description": "Policies of this experiment, or a file of them.",
        "anyOf": [
            {
                "type": "string",
                "description": "A file of policies, relative to the experiment's folder or a folder above it.",
            },
            {
                "type": "object",
                "properties": {
                    "base": { "type": "string", "description": "The file of policies that these tables change." },
                },
                "additionalProperties": {
                    "anyOf": [{ "$ref": "#/$defs/Policy" }, { "$ref": "#/$defs/KernelPolicy" }],
                },
            },
        ],
    })
}

/// Adds to the JSON schema of a machine the keys and values of a machine in words (module `short`):
/// `memory`, `nodes`, and strings for `disk` and `swap`. `definitions` are the schema's `$defs`.
fn in_words(definitions: &mut Map<String, Value>) {
    let properties = definitions
        .get_mut("Machine")
        .and_then(|m| m.get_mut("properties"));
    let Some(properties) = properties.and_then(Value::as_object_mut) else {
        return;
    };
    let words = [
        (
            "disk",
            "A kind with its capacity, such as `nvme=1T`, beside `memory`.",
        ),
        (
            "swap",
            "The size of the swap area on the disk of `/`, beside `memory`.",
        ),
    ];
    for (key, about) in words {
        let Some(property) = properties.get_mut(key) else {
            continue;
        };
        let description = property
            .as_object_mut()
            .and_then(|o| o.remove("description"));
        let table = property.take();
        let word = json!({ "type": "string", "description": about });
        *property = json!({ "anyOf": [table, word] });
        if let Some(description) = description {
            property["description"] = description;
        }
    }
    properties.insert(
        "memory".into(),
        json!({
            "description": "All memory, such as `16G`, in the place of `node`: zones lie as Linux lays them out on x86-64. Beside it `cpus`, `nodes`, `disk`, `swap` and `hz` may be the words of a machine in a line.",
            "type": ["string", "integer"],
        }),
    );
    properties.insert(
        "nodes".into(),
        json!({
            "description": "The number of NUMA nodes, which share `memory` evenly.",
            "type": "integer", "minimum": 1,
        }),
    );
}

/// Returns the JSON schema of a table of `[policies]` that is a real kernel.
fn kernel_policy() -> Value {
    json!({
        "description": "A real Linux in the place of a policy of the engine.",
        "type": "object",
        "properties": {
            "kernel": {
                "type": "string",
                "description": "The name that the kernel was built under: `lowmark kernel list`.",
            },
            "base": {
                "type": "string",
                "description": "Another policy that is a real kernel, which this one changes, or `kernel:` and a built kernel's name.",
            },
            "sysctl": {
                "type": "object",
                "description": "Sysctls of this kernel, by whole names with dots or slashes, or by the last part for those below vm; they are written after the machine's sysctls.",
                "additionalProperties": { "type": ["integer", "string", "array", "object"] },
            },
            "lru_gen": {
                "type": "boolean",
                "description": "Whether the multi-generational LRU is on; absent: the kernel's default.",
            },
            "costs": {
                "type": "boolean",
                "description": "Whether computing takes virtual time, by the parameters cost_…; absent: true.",
            },
        },
        "oneOf": [{ "required": ["kernel"] }, { "required": ["base"] }],
        "additionalProperties": false,
    })
}

/// Returns the names of the schema's definitions that are tables: a list of them makes no axis.
fn schema_kinds() -> [&'static str; 12] {
    [
        "AtTable",
        "Boot",
        "SwapSpec",
        "Disks",
        "DiskSpec",
        "MountedDisk",
        "SecondSpec",
        "Sysctl",
        "NodeSpec",
        "ZoneSpec",
        "WorkloadTable",
        "Policy",
    ]
}

fn definition_kinds(names: [&'static str; 12]) -> Vec<String> {
    names.iter().map(|n| format!("#/$defs/{n}")).collect()
}

/// Adds the key `base`, with the schema given, to the definition `name` of a table, and removes the
/// keys in `drop`. No key of the table stays required, except `base` if `required` is true.
fn with_base(
    definitions: &mut Map<String, Value>,
    name: &str,
    drop: &[&str],
    base: Value,
    required: bool,
) {
    let Some(definition) = definitions.get_mut(name).and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(properties) = definition
        .get_mut("properties")
        .and_then(Value::as_object_mut)
    {
        for key in drop {
            properties.remove(*key);
        }
        properties.insert("base".into(), base);
    }
    // Keys that the table leaves out come from its base.
    definition.remove("required");
    if required {
        definition.insert("required".into(), json!(["base"]));
    }
}

/// Changes the JSON schema of a table so that every scalar property may also be a list, which makes
/// an axis of the matrix. `tables` are references to definitions that are tables, whose lists make
/// none.
fn properties_to_axes(properties: &mut Map<String, Value>, tables: &[String]) {
    for (key, value) in properties.iter_mut() {
        let text = value.to_string();
        let table = tables.iter().any(|t| text.contains(t.as_str()))
            || value.get("type") == Some(&json!("object"));
        if NO_AXIS.contains(&key.as_str()) || table {
            continue;
        }
        let description = value.as_object_mut().and_then(|o| o.remove("description"));
        let one = value.take();
        let mut either = json!({
            "anyOf": [one, { "type": "array", "items": one, "minItems": 1, "uniqueItems": true }]
        });
        if let (Some(description), Some(o)) = (description, either.as_object_mut()) {
            o.insert("description".into(), description);
        }
        *value = either;
    }
}

/// Returns the JSON schema of a table of sysctls under the kernel's whole names, with the range of
/// each; `description` is shown for the table.
fn sysctls_by_name(description: &str) -> Value {
    let properties: Map<String, Value> = mm::sysctl::TABLE
        .iter()
        .map(|info| {
            let one = match info.fits {
                Fits::Number(least, most) => {
                    json!({ "type": "integer", "minimum": least, "maximum": most })
                }
                Fits::ZeroOr(_, most) => json!({ "type": "integer", "minimum": 0, "maximum": most }),
                Fits::HalfOfMemory => json!({ "type": "integer", "minimum": 0 }),
                Fits::Bytes(..) => json!({ "type": ["integer", "string"] }),
                Fits::Three(least, most) => json!({
                    "anyOf": [
                        { "type": "array", "minItems": 1, "maxItems": 5,
                          "items": { "type": "integer", "minimum": least, "maximum": most } },
                        { "type": "string" },
                    ],
                }),
            };
            let about = format!("{} ({})", info.about.trim(), info.unit);
            let mut value = match info.fits {
                Fits::Three(..) => one,
                _ => json!({
                    "anyOf": [one, { "type": "array", "items": one, "minItems": 1, "uniqueItems": true }],
                }),
            };
            value["description"] = about.into();
            (info.name.to_owned(), value)
        })
        .collect();
    json!({
        "description": description,
        "type": "object", "properties": properties, "additionalProperties": false,
        "minProperties": 1,
    })
}

/// Returns the JSON schema of a table of model parameters, with the range and the default of each;
/// `description` is shown for the table.
fn parameters(description: &str) -> Value {
    let properties: Map<String, Value> = sim::Params::TABLE
        .iter()
        .map(|p| {
            let one = json!({ "type": "number", "minimum": p.min, "maximum": p.max });
            let value = json!({
                "description": format!("{} ({})", p.source, p.unit),
                "default": p.value,
                "anyOf": [one, { "type": "array", "items": one, "minItems": 1, "uniqueItems": true }],
            });
            (p.name.to_owned(), value)
        })
        .collect();
    json!({
        "description": description,
        "type": "object", "properties": properties, "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_described_and_every_scalar_may_be_a_list() {
        let schema = schema();
        for key in super::super::KEYS {
            assert!(
                schema["properties"][key]["description"].is_string(),
                "{key}"
            );
        }
        let machine = &schema["$defs"]["Machine"]["properties"];
        assert_eq!(machine["cpus"]["anyOf"][1]["type"], "array");
        assert!(machine["node"]["anyOf"].is_null());
        assert_eq!(schema["$defs"]["Policy"]["required"], json!(["base"]));
        assert!(schema["properties"]["params"]["properties"]["cost_copy"].is_object());
        let [file, tables] = [0, 1].map(|i| &schema["properties"]["policies"]["anyOf"][i]);
        assert_eq!(file["type"], "string");
        assert_eq!(tables["properties"]["base"]["type"], "string");
        let policies = &tables["additionalProperties"]["anyOf"];
        assert_eq!(policies[0]["$ref"], "#/$defs/Policy");
        assert_eq!(policies[1]["$ref"], "#/$defs/KernelPolicy");
        let kernel = &schema["$defs"]["KernelPolicy"]["properties"];
        assert_eq!(kernel["lru_gen"]["anyOf"][1]["type"], "array");
        assert_eq!(kernel["kernel"]["anyOf"][1]["type"], "array");
        assert!(kernel["base"]["anyOf"].is_null() && kernel["sysctl"]["anyOf"].is_null());
        for key in super::super::kernels::KEYS {
            assert!(kernel[key]["description"].is_string(), "{key}");
        }
        let disk = &schema["$defs"]["DiskSpec"]["properties"]["params"]["properties"];
        assert_eq!(disk["ssd_read"]["anyOf"][1]["type"], "array");
        let second = &schema["$defs"]["SecondSpec"]["properties"];
        assert_eq!(second["filesystem"]["anyOf"][1]["type"], "array");
        assert!(second["disk"]["anyOf"].is_null());
        assert!(schema["$defs"]["Sysctl"]["properties"]["lowmem_reserve_ratio"]["anyOf"].is_null());
    }

    #[test]
    fn every_switch_is_described_and_every_number_has_its_range() {
        let schema = schema();
        for switch in mm::policy::switches() {
            let (table, key) = match switch.name.split_once('.') {
                Some((_, rule)) => ("AutoWatermarks", rule),
                None => ("Policy", switch.name),
            };
            let property = &schema["$defs"][table]["properties"][key];
            let text = property["description"].as_str().expect(switch.name);
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.starts_with(switch.about()), "{}: {text}", switch.name);
            if let mm::policy::Form::Number { least, most, .. } = switch.form {
                // The first form is a single value; a list of values, which makes an axis, may
                // follow.
                let one = property.pointer("/anyOf/0").unwrap_or(property);
                let range = (one["minimum"].as_u64(), one["maximum"].as_u64());
                assert_eq!(range, (Some(least), Some(most)), "{}", switch.name);
            }
        }
    }
}
