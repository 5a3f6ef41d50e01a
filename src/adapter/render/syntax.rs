//! What stands in a template: functions and variables must exist before anything is rendered.

use super::{Fault, functions};
use gotmpl::parse::{
    BranchNode, CommandNode, DefineNode, Expr, ListNode, Node, Number, PipeNode, TemplateNode,
};
use std::collections::BTreeMap;

/// Nodes of a template with every `template` call replaced by what it calls.
const EXPANDED_NODES_MAX: u64 = 50_000;

/// A chain of names that a template reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// Byte of the chain.
    pub(super) at: usize,
    /// The variable that it begins with, but for `$`.
    pub(super) of: String,
    /// The names as they are written.
    pub(super) written: Vec<String>,
    /// The path from the data, where it is certain.
    pub(super) path: Option<Vec<String>>,
}

/// Numbers with a fraction that Go and gotmpl print alike.
const PLAIN_FLOATS: std::ops::Range<f64> = 0.0001..1_000_000.0;

/// Checks a template and returns what it reads, in the order of the text.
pub(super) fn check(source: &str, main: &ListNode, defines: &[DefineNode]) -> Result<Vec<Read>, Fault> {
    let mut walks = BTreeMap::new();
    for define in defines {
        let mut walk = Walk::new(source, None);
        walk.list(&define.body, None)?;
        if walks.insert(define.name.to_string(), walk).is_some() {
            return Err(Fault::new(
                define.pos.offset,
                format!("template {:?} is defined twice", define.name),
            ));
        }
    }
    let root = Some(Vec::new());
    let mut walk = Walk::new(source, root.clone());
    walk.list(main, root.as_ref())?;
    for (call, at) in walks.values().chain([&walk]).flat_map(|walk| &walk.calls) {
        if !walks.contains_key(call) {
            return Err(Fault::new(*at, format!("template {call:?} is not defined")));
        }
    }
    if expanded(&walk, &walks, 0) > EXPANDED_NODES_MAX {
        return Err(Fault::new(0, "templates call each other too often"));
    }
    let mut reads: Vec<Read> = walks.into_values().chain([walk]).flat_map(|walk| walk.reads).collect();
    reads.sort_by_key(|read| read.at);
    Ok(reads)
}

/// Counts nodes; a recursion counts as too many, since nothing in the data could end it.
fn expanded(walk: &Walk<'_>, all: &BTreeMap<String, Walk<'_>>, depth: usize) -> u64 {
    if depth > all.len() {
        return EXPANDED_NODES_MAX + 1;
    }
    let mut sum = walk.nodes;
    for (call, _) in &walk.calls {
        sum = sum.saturating_add(all.get(call).map_or(0, |called| expanded(called, all, depth + 1)));
        if sum > EXPANDED_NODES_MAX {
            break;
        }
    }
    sum
}

/// Where the dot points to, as a path from the data; `None` when that is not known.
type Dot<'a> = Option<&'a Vec<String>>;

/// One body, main or defined.
struct Walk<'s> {
    source: &'s str,
    /// What `$` points to.
    root: Option<Vec<String>>,
    variables: Vec<String>,
    reads: Vec<Read>,
    calls: Vec<(String, usize)>,
    nodes: u64,
}

impl<'s> Walk<'s> {
    fn new(source: &'s str, root: Option<Vec<String>>) -> Self {
        Self { source, root, variables: Vec::new(), reads: Vec::new(), calls: Vec::new(), nodes: 0 }
    }

    fn list(&mut self, list: &ListNode, dot: Dot<'_>) -> Result<(), Fault> {
        list.nodes.iter().try_for_each(|node| self.node(node, dot))
    }

    fn node(&mut self, node: &Node, dot: Dot<'_>) -> Result<(), Fault> {
        self.nodes += 1;
        match node {
            Node::List(list) => self.list(list, dot),
            Node::Action(action) => self.pipe(&action.pipe, dot),
            Node::If(branch) => self.branch(branch, dot, dot),
            Node::With(branch) => {
                let inner = self.path(&branch.pipe, dot);
                self.branch(branch, dot, inner.as_ref())
            }
            Node::Range(branch) => self.branch(branch, dot, None),
            Node::Template(call) => self.call(call, dot),
            Node::Text(_) | Node::Define(_) | Node::Break(_) | Node::Continue(_) => Ok(()),
        }
    }

    /// Variables of a block end with it.
    fn branch(&mut self, branch: &BranchNode, dot: Dot<'_>, inner: Dot<'_>) -> Result<(), Fault> {
        let outside = self.variables.len();
        self.pipe(&branch.pipe, dot)?;
        let head = self.variables.len();
        self.list(&branch.body, inner)?;
        self.variables.truncate(head);
        if let Some(other) = &branch.else_body {
            self.list(other, dot)?;
        }
        self.variables.truncate(outside);
        Ok(())
    }

    /// Without an argument, Go gives the called template nothing, gotmpl the caller's dot.
    fn call(&mut self, call: &TemplateNode, dot: Dot<'_>) -> Result<(), Fault> {
        self.calls.push((call.name.to_string(), call.pos.offset));
        match &call.pipe {
            Some(pipe) => self.pipe(pipe, dot),
            None => Err(Fault::new(
                call.pos.offset,
                format!("say what template {:?} gets, as in a dot", call.name),
            )),
        }
    }

    fn pipe(&mut self, pipe: &PipeNode, dot: Dot<'_>) -> Result<(), Fault> {
        for (stage, command) in pipe.commands.iter().enumerate() {
            self.command(command, stage, dot)?;
        }
        for name in &pipe.decl {
            if pipe.is_assign {
                self.declared(name, pipe.pos.offset)?;
            } else {
                self.variables.push(name.to_string());
            }
        }
        Ok(())
    }

    fn command(&mut self, command: &CommandNode, stage: usize, dot: Dot<'_>) -> Result<(), Fault> {
        let at = command.pos.offset;
        match command.args.as_slice() {
            [Expr::Nil(_), ..] => Err(Fault::new(at, "nil is no command")),
            [Expr::Dot(_) | Expr::Bool(..) | Expr::Number(..) | Expr::String(..), ..] if stage > 0 => {
                Err(Fault::new(at, "only a function can stand behind |"))
            }
            args => args.iter().try_for_each(|arg| self.expr(arg, dot)),
        }
    }

    fn expr(&mut self, expr: &Expr, dot: Dot<'_>) -> Result<(), Fault> {
        self.nodes += 1;
        match expr {
            Expr::Field(pos, names) => {
                self.read(pos.offset, "", names, dot.map(|dot| join(dot, names)));
                Ok(())
            }
            Expr::Variable(pos, name, names) => {
                let root = self.root.as_ref().filter(|_| name == "$");
                let of = if name == "$" { "" } else { name.as_str() };
                self.read(pos.offset, of, names, root.map(|root| join(root, names)));
                self.declared(name, pos.offset)
            }
            Expr::Identifier(pos, name) if !functions::exists(name) => {
                Err(Fault::new(pos.offset, format!("function {name:?} does not exist")))
            }
            // Go prints it with an exponent, gotmpl without.
            Expr::Number(pos, Number::Float(number))
                if !PLAIN_FLOATS.contains(&number.abs()) && *number != 0.0 =>
            {
                Err(Fault::new(pos.offset, format!("{number:e} is written as a text here: in quotes")))
            }
            Expr::Number(pos, _) => number(self.source, pos.offset),
            Expr::Pipe(_, pipe) => self.pipe(pipe, dot),
            Expr::Chain(pos, inner, names) => {
                self.read(pos.offset, "", names, None);
                self.expr(inner, dot)
            }
            Expr::Dot(_) | Expr::Identifier(..) | Expr::String(..) | Expr::Bool(..) | Expr::Nil(_) => Ok(()),
        }
    }

    fn read(&mut self, at: usize, of: &str, names: &[impl ToString], path: Option<Vec<String>>) {
        self.reads.push(Read { at, of: of.to_owned(), written: join(&[], names), path });
    }

    fn declared(&self, name: &str, at: usize) -> Result<(), Fault> {
        if name == "$" || self.variables.iter().any(|known| known == name) {
            return Ok(());
        }
        Err(Fault::new(at, format!("variable {name} is not declared")))
    }

    /// Where a pipeline points to, when it is nothing but a field.
    fn path(&self, pipe: &PipeNode, dot: Dot<'_>) -> Option<Vec<String>> {
        let [command] = pipe.commands.as_slice() else { return None };
        match command.args.as_slice() {
            [Expr::Dot(_)] => dot.cloned(),
            [Expr::Field(_, names)] => dot.map(|dot| join(dot, names)),
            [Expr::Variable(_, name, names)] if name == "$" => {
                self.root.as_ref().map(|root| join(root, names))
            }
            _ => None,
        }
    }
}

/// gotmpl takes numbers that Go does not: with two underscores, and octal ones with an 8 or a 9.
fn number(source: &str, at: usize) -> Result<(), Fault> {
    let text = source.get(at..).unwrap_or_default().trim_start_matches(['+', '-']);
    let end =
        text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(text.len());
    let text = text.get(..end).unwrap_or_default();
    let octal = text.len() > 1
        && text.starts_with('0')
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    if text.contains("__") || text.ends_with('_') || (octal && text.contains(['8', '9'])) {
        return Err(Fault::new(at, format!("{text} is no number")));
    }
    Ok(())
}

fn join(start: &[String], names: &[impl ToString]) -> Vec<String> {
    start.iter().cloned().chain(names.iter().map(ToString::to_string)).collect()
}
