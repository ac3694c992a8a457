//! The checked workflow that the engine executes. It does not change, and sessions share it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde_json::Value;

use super::error::DefinitionError;
use super::graph;
use super::schema::Schema;
use super::types::{
    PrerequisiteDefinition, Propagated, PropagationDefinition, StageDefinition, TaskDefinition,
    WorkflowDefinition,
};

/// A workflow whose definition was checked.
#[derive(Debug)]
pub struct Workflow {
    name: String,
    description: Option<String>,
    stages: Vec<Stage>,
    index: HashMap<String, usize>,
    initial: usize,
    private: Vec<String>,
    writable: Option<BTreeSet<String>>,
    state_schema: Option<Schema>,
    require_terminal: bool,
    state_management: Option<Vec<PropagationDefinition>>,
}

/// A stage of a workflow.
#[derive(Debug)]
pub struct Stage {
    /// The name.
    pub name: String,
    /// What the stage is for.
    pub description: Option<String>,
    /// The tasks, as they were declared.
    pub tasks: Vec<Task>,
    /// What the state must contain before the stage is entered.
    pub prerequisites: Vec<Prerequisite>,
    /// The transitions that leave the stage.
    pub transitions: Vec<Transition>,
    /// True if the application is called when the stage is entered.
    pub on_enter: bool,
    /// True if the application is called when the stage is left.
    pub on_exit: bool,
    /// True if a session is completed as soon as it enters the stage.
    pub complete_on_enter: bool,
}

/// A task of a stage.
#[derive(Debug)]
pub struct Task {
    /// The name.
    pub name: String,
    /// What the task does.
    pub description: String,
    /// The schema of the arguments: an object that allows only the parameters it names.
    pub parameters: Schema,
    /// The schema of the result.
    pub returns: Option<Schema>,
    /// All keys that the task may write; `None` if that is not known.
    pub writes: Option<Vec<String>>,
    /// How long the task may run; `None` for the limit of the server.
    pub timeout: Option<Duration>,
    /// True if a call may need the approval of a person.
    pub approval: bool,
}

/// What the state must contain before a stage is entered.
#[derive(Debug)]
pub enum Prerequisite {
    /// A key.
    Key(String),
    /// The required fields of a model. The values are validated.
    Model {
        /// The name of the model.
        name: String,
        /// Its schema.
        schema: Schema,
        /// True if the application validates the values too.
        validated: bool,
    },
}

/// A transition to another stage, or to the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The stage that is entered.
    pub to: String,
    /// True if the application decides each time whether the transition is allowed.
    pub guarded: bool,
}

impl Prerequisite {
    /// The keys that must be there.
    pub fn required_keys(&self) -> Vec<&str> {
        match self {
            Self::Key(key) => vec![key],
            Self::Model { schema, .. } => schema.required().collect(),
        }
    }

    /// All keys, with their schemas where they are known.
    pub fn keys(&self) -> Vec<(&str, Option<&Value>)> {
        match self {
            Self::Key(key) => vec![(key, None)],
            Self::Model { schema, .. } => {
                schema.properties().map(|(key, value)| (key.as_str(), Some(value))).collect()
            }
        }
    }
}

impl Stage {
    /// Finds a task by its name.
    pub fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.name == name)
    }

    /// Finds the transition to a stage.
    pub fn transition(&self, to: &str) -> Option<&Transition> {
        self.transitions.iter().find(|transition| transition.to == to)
    }

    /// True if the application validates the values of prerequisites before the stage is entered.
    pub fn validates_prerequisites(&self) -> bool {
        let mut prerequisites = self.prerequisites.iter();
        prerequisites.any(|prerequisite| matches!(prerequisite, Prerequisite::Model { validated: true, .. }))
    }

    /// The keys of the models among the prerequisites.
    pub fn model_keys(&self) -> impl Iterator<Item = &str> {
        let models = self.prerequisites.iter().filter_map(|prerequisite| match prerequisite {
            Prerequisite::Key(_) => None,
            Prerequisite::Model { schema, .. } => Some(schema),
        });
        models.flat_map(Schema::properties).map(|(key, _)| key.as_str())
    }

    /// True if no transition leaves the stage.
    pub fn is_terminal(&self) -> bool {
        self.transitions.is_empty()
    }

    /// The names of the tasks.
    pub fn task_names(&self) -> Vec<&str> {
        self.tasks.iter().map(|task| task.name.as_str()).collect()
    }

    /// The names of the stages that may follow.
    pub fn exits(&self) -> Vec<&str> {
        self.transitions.iter().map(|transition| transition.to.as_str()).collect()
    }
}

impl Workflow {
    /// Checks a definition: names, schemas, and the graph of the stages.
    ///
    /// # Errors
    /// [`DefinitionError`] with the place, the rule and the remedy.
    pub fn new(definition: WorkflowDefinition) -> Result<Self, DefinitionError> {
        graph::check_names(&definition)?;
        let mut stages = Vec::with_capacity(definition.stages.len());
        let initial = definition.stages.iter().position(|stage| stage.initial).unwrap_or(0);
        for stage in definition.stages {
            stages.push(compile_stage(&definition.name, stage)?);
        }
        let index: HashMap<String, usize> =
            stages.iter().enumerate().map(|(position, stage)| (stage.name.clone(), position)).collect();
        for transition in definition.transitions {
            if let Some(stage) = index.get(&transition.from).and_then(|position| stages.get_mut(*position)) {
                stage.transitions.push(Transition { to: transition.to, guarded: transition.guarded });
            }
        }
        let place = format!("state of workflow \"{}\"", definition.name);
        let state_schema =
            definition.state_schema.map(|schema| Schema::of_state(&place, schema)).transpose()?;
        let has_declaration = state_schema.is_some()
            || !definition.private.is_empty()
            || !definition.agent_writable.is_empty()
            || stages.iter().any(|stage| !stage.prerequisites.is_empty());
        let prerequisites = stages.iter().flat_map(|stage| &stage.prerequisites);
        let keys = prerequisites.flat_map(Prerequisite::keys).map(|(key, _)| key.to_owned());
        let writable: BTreeSet<String> = definition.agent_writable.into_iter().chain(keys).collect();
        let workflow = Self {
            name: definition.name,
            description: definition.description,
            writable: has_declaration.then_some(writable),
            stages,
            index,
            initial,
            private: definition.private,
            state_schema,
            require_terminal: definition.require_terminal,
            state_management: definition.state_management,
        };
        graph::check_graph(&workflow)?;
        Ok(workflow)
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the workflow is for.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The stages, as they were declared.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Finds a stage by its name.
    pub fn stage(&self, name: &str) -> Option<&Stage> {
        self.index.get(name).and_then(|position| self.stages.get(*position))
    }

    /// The name of the stage in which sessions start.
    pub fn initial_stage(&self) -> &str {
        self.stages.get(self.initial).map_or("", |stage| &stage.name)
    }

    /// The schema of the state, without required keys.
    pub const fn state_schema(&self) -> Option<&Schema> {
        self.state_schema.as_ref()
    }

    /// True if a session ends only in a stage without outgoing transitions.
    pub const fn require_terminal(&self) -> bool {
        self.require_terminal
    }

    /// True if each stage has a store of its own.
    pub const fn has_stage_stores(&self) -> bool {
        self.state_management.is_some()
    }

    /// What a transition copies between the stores of stages.
    pub fn propagated(&self, from: &str, to: &str) -> &Propagated {
        let rules = self.state_management.iter().flatten();
        let rule = rules.rev().find(|rule| rule.from == from && rule.to == to);
        rule.map_or(&Propagated::All, |rule| &rule.copies)
    }

    /// The private keys, as they were declared.
    pub fn private_keys(&self) -> &[String] {
        &self.private
    }

    /// True if agents must not see the value of a key: the key or one that contains it is private.
    pub fn is_private(&self, key: &str) -> bool {
        self.private.iter().any(|private| contains_path(private, key))
    }

    /// True if an agent may write a key. A key that contains a private one, or is inside of one, may not be written:
    /// a read of the private key could find it.
    pub fn is_agent_writable(&self, key: &str) -> bool {
        let touches_private =
            self.private.iter().any(|private| contains_path(private, key) || contains_path(key, private));
        !touches_private && self.writable.as_ref().is_none_or(|writable| writable.contains(key))
    }

    /// The keys that an agent may write; `None` if the workflow declares nothing, so that it may write any key.
    pub fn agent_writable_keys(&self) -> Option<Vec<&str>> {
        let writable = self.writable.as_ref()?;
        Some(writable.iter().map(String::as_str).filter(|key| self.is_agent_writable(key)).collect())
    }

    /// The schema of the value of a key, from the schema of the state.
    pub fn schema_of_key(&self, key: &str) -> Option<&Value> {
        self.state_schema.as_ref()?.value().get("properties")?.get(key)
    }
}

/// True if `path` is `outer`, or a path into it.
pub(super) fn contains_path(outer: &str, path: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn compile_stage(workflow: &str, stage: StageDefinition) -> Result<Stage, DefinitionError> {
    let place = format!("stage \"{}\" of workflow \"{workflow}\"", stage.name);
    let tasks = stage.tasks.into_iter().map(|task| compile_task(&place, task));
    let tasks = tasks.collect::<Result<_, _>>()?;
    let prerequisites = stage.prerequisites.into_iter().map(|item| match item {
        PrerequisiteDefinition::Key(key) => Ok(Prerequisite::Key(key)),
        PrerequisiteDefinition::Model { model, schema, validated } => {
            let place = format!("prerequisite {model} of {place}");
            let schema = Schema::new(&place, schema)?;
            if schema.properties().next().is_none() {
                let reason =
                    "the schema has no properties, so it names no keys of the state; add some".to_owned();
                return Err(DefinitionError::Schema { place, reason });
            }
            Ok(Prerequisite::Model { name: model, schema, validated })
        }
    });
    Ok(Stage {
        prerequisites: prerequisites.collect::<Result<_, _>>()?,
        name: stage.name,
        description: stage.description,
        tasks,
        transitions: Vec::new(),
        on_enter: stage.on_enter,
        on_exit: stage.on_exit,
        complete_on_enter: stage.complete_on_enter,
    })
}

fn compile_task(stage: &str, task: TaskDefinition) -> Result<Task, DefinitionError> {
    let place = format!("task \"{}\" of {stage}", task.name);
    let returns = task.returns.map(|schema| Schema::new(&format!("result of {place}"), schema));
    let timeout = task.timeout.map(|seconds| {
        let duration = Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero());
        duration.ok_or_else(|| DefinitionError::Limit {
            place: place.clone(),
            reason: format!("timeout: expected a number of seconds greater than 0, got {seconds}"),
        })
    });
    Ok(Task {
        parameters: Schema::of_arguments(&format!("arguments of {place}"), task.parameters)?,
        returns: returns.transpose()?,
        timeout: timeout.transpose()?,
        name: task.name,
        description: task.description,
        writes: task.writes,
        approval: task.approval,
    })
}
