"""The programming languages that are indexed, and what a unit is in each one's syntax tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from harken.errors import MissingExtraError
from harken.sources.workspace.files import SkippedError

if TYPE_CHECKING:
    import tree_sitter


# How much may stand side by side where a grammar makes nothing of it: a query takes the square of it, 0.7 s for so many
# and over a minute for ten times as many.
_MOST_IN_ERROR = 30_000
_PYTHON = """
(class_definition name: (identifier) @name body: (_) @body) @class
(function_definition name: (identifier) @name body: (_) @body) @function
((module (expression_statement (assignment left: (identifier) @name) @constant))
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
((class_definition body: (block (expression_statement (assignment left: (identifier) @name) @constant)))
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
(type_alias_statement left: (type [(identifier) @name (generic_type (identifier) @name)])) @class
"""

_JAVASCRIPT = """
(class_declaration name: (identifier) @name body: (_) @body) @class
(function_declaration name: (identifier) @name body: (_) @body) @function
(generator_function_declaration name: (identifier) @name body: (_) @body) @function
(method_definition name: (_) @name body: (_) @body) @function
(variable_declarator name: (identifier) @name value: (arrow_function body: (_) @body)) @function
(variable_declarator name: (identifier) @name value: (function_expression body: (_) @body)) @function
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @class
((program (lexical_declaration kind: "const" (variable_declarator name: (identifier) @name) @constant))
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
((program (export_statement
    (lexical_declaration kind: "const" (variable_declarator name: (identifier) @name) @constant)))
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
"""

# What another function makes (`memo(…)`, `forwardRef(…)`), and what is hung on an object, as before there were modules.
_WRAPPED = (
    "(variable_declarator name: (identifier) @name value: (call_expression arguments:"
    " (arguments [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))) @function"
)
_HUNG = "right: [(function_expression body: (_) @body) (arrow_function body: (_) @body)]"
_JAVASCRIPT += f"""
(program [(lexical_declaration {_WRAPPED}) (variable_declaration {_WRAPPED})])
(program (export_statement (lexical_declaration {_WRAPPED})))
((program (expression_statement (assignment_expression
    left: (member_expression object: (_) @on property: (property_identifier) @name) {_HUNG}) @function))
  (#not-match? @on "\\.prototype$"))
((assignment_expression left: (member_expression object: (_) @on property: (property_identifier) @name) {_HUNG})
  @function (#match? @on "^(module\\.)?exports$"))
((assignment_expression left: (member_expression
    object: (member_expression object: (_) @receiver property: (_) @on) property: (property_identifier) @name) {_HUNG})
  @method (#eq? @on "prototype"))
"""

_JAVASCRIPT_FIELDS = """
(field_definition property: (_) @name value: (arrow_function body: (_) @body)) @function
((field_definition property: (property_identifier) @name value: (_)) @constant
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
"""

_TYPESCRIPT = """
(abstract_class_declaration name: (_) @name body: (_) @body) @class
(interface_declaration name: (_) @name body: (_) @body) @class
(enum_declaration name: (_) @name body: (_) @body) @class
(type_alias_declaration name: (_) @name value: (_) @body) @class
(internal_module name: (_) @name) @namespace
(module name: (_) @name) @namespace
(function_signature name: (identifier) @name) @function
(abstract_method_signature name: (_) @name) @function
(method_signature name: (_) @name) @function
(public_field_definition name: (_) @name value: (arrow_function body: (_) @body)) @function
((public_field_definition name: (property_identifier) @name value: (_)) @constant
  (#match? @name "^_*[A-Z][A-Z0-9_]*$"))
"""

_RUST = """
(function_item name: (identifier) @name body: (_) @body) @function
(function_signature_item name: (identifier) @name) @function
(struct_item name: (type_identifier) @name body: (_)? @body) @class
(enum_item name: (type_identifier) @name body: (_) @body) @class
(union_item name: (type_identifier) @name body: (_) @body) @class
(trait_item name: (type_identifier) @name body: (_) @body) @class
(type_item name: (type_identifier) @name) @class
(impl_item type: (_) @name body: (_) @body) @scope
(mod_item name: (identifier) @name body: (_) @body) @namespace
(const_item name: (identifier) @name) @constant
(static_item name: (identifier) @name) @constant
(macro_definition name: (identifier) @name) @function
"""

_GO = """
(function_declaration name: (identifier) @name body: (_)? @body) @function
(method_declaration receiver: (_) @receiver name: (field_identifier) @name body: (_)? @body) @method
(type_spec name: (type_identifier) @name type: (_) @body) @class
(type_alias name: (type_identifier) @name type: (_) @body) @class
(method_elem name: (field_identifier) @name) @method
(source_file (const_declaration (const_spec name: (identifier) @name) @constant))
"""

_JAVA = """
(class_declaration name: (identifier) @name body: (_) @body) @class
(interface_declaration name: (identifier) @name body: (_) @body) @class
(enum_declaration name: (identifier) @name body: (_) @body) @class
(record_declaration name: (identifier) @name body: (_) @body) @class
(annotation_type_declaration name: (identifier) @name body: (_) @body) @class
(method_declaration name: (identifier) @name body: (_)? @body) @method
(constructor_declaration name: (identifier) @name body: (_) @body) @method
((field_declaration declarator: (variable_declarator name: (identifier) @name)) @constant
  (#match? @name "^[A-Z][A-Z0-9_]*$"))
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @constant
"""

_PROTOTYPE = (
    "(declaration declarator: [(function_declarator)"
    " (pointer_declarator declarator: (function_declarator))] @name) @function"
)
_C = f"""
(function_definition declarator: (_) @name body: (_) @body) @function
(translation_unit {_PROTOTYPE})
(preproc_ifdef {_PROTOTYPE})
(declaration_list {_PROTOTYPE})
(struct_specifier name: (type_identifier) @name body: (_) @body) @class
(union_specifier name: (type_identifier) @name body: (_) @body) @class
(enum_specifier name: (type_identifier) @name body: (_) @body) @class
(type_definition declarator: (_) @name) @class
(preproc_def name: (identifier) @name value: (_)) @constant
(preproc_function_def name: (identifier) @name) @function
(declaration (type_qualifier) declarator: (init_declarator declarator: (_) @name)) @constant
"""

_CPP = """
(class_specifier name: (_) @name body: (_) @body) @class
(namespace_definition name: (_) @name body: (_) @body) @namespace
(function_definition declarator: (_) @name (default_method_clause)) @function
(field_declaration declarator: (function_declarator) @name) @function
(field_declaration declarator: (_ (function_declarator)) @name) @function
(field_declaration_list (declaration declarator: [(function_declarator) (operator_cast)] @name) @function)
((field_declaration (type_qualifier) @kind declarator: (field_identifier) @name) @constant
  (#eq? @kind "constexpr"))
(alias_declaration name: (type_identifier) @name) @class
(concept_definition name: (identifier) @name) @class
"""

_SQL = """
(create_table (object_reference) @name . (_) @body) @table
(create_view (object_reference) @name) @view
(create_materialized_view (object_reference) @name) @view
(create_function (keyword_function) . (object_reference) @name (function_body)? @body) @function
(create_procedure (keyword_procedure) . (object_reference) @name (procedure_body)? @body) @function
(create_trigger (keyword_trigger) . (object_reference) @name) @function
(create_type (object_reference) @name) @class
"""


@dataclass(frozen=True)
class Language:
    """A language and the grammar that reads it.

    Attributes:
        module: the package of its grammar; `entry` is the grammar's function in it.
        query: matches its units.
        separator: between the parts of a qualified name.
        has_docstrings: a unit is documented by the first string of its body, not by a comment before it.
    """

    name: str
    module: str
    query: str
    suffixes: str = ""
    entry: str = "language"
    separator: str = "."
    has_docstrings: bool = False

    @property
    def searched_name(self) -> str:
        """The name that people search for it by."""
        return "typescript" if self.name == "tsx" else self.name

    @cached_property
    def _loaded(self) -> tuple[tree_sitter.Parser, tree_sitter.Query, type[tree_sitter.QueryCursor]]:
        try:
            import tree_sitter

            grammar = tree_sitter.Language(getattr(import_module(self.module), self.entry)())
        except ImportError as error:
            raise MissingExtraError(f"Indexing {self.name}", "code") from error
        try:
            query = tree_sitter.Query(grammar, self.query)
        except tree_sitter.QueryError as error:
            # It has `re` compile its patterns: a Ctrl-C meanwhile comes as an error of the query.
            raise (error.__cause__ if isinstance(error.__cause__, KeyboardInterrupt) else error) from None
        return tree_sitter.Parser(grammar), query, tree_sitter.QueryCursor

    def matches(self, source: bytes) -> tuple[tree_sitter.Node, list[Mapping[str, list[Any]]]]:
        """The tree's root, and every match of the query.

        Raises:
            MissingExtraError: the grammar is not installed.
            SkippedError: it takes too long, as among a hundred thousand brackets that nothing closes.
        """
        parser, query, cursor = self._loaded
        root = parser.parse(source).root_node
        if _is_tangled(root):
            raise SkippedError("tangled")
        return root, [captures for _, captures in cursor(query).matches(root)]


def _is_tangled(root: tree_sitter.Node) -> bool:
    """Whether a query would take too long."""
    wrong = [root]
    while wrong:
        node = wrong.pop()
        if node.is_error and node.child_count > _MOST_IN_ERROR:
            return True
        wrong += [child for child in node.children if child.has_error] if node.has_error else ()
    return False


_TYPESCRIPT = (
    _JAVASCRIPT.replace("(identifier) @name body: (_) @body) @class", "(_) @name body: (_) @body) @class") + _TYPESCRIPT
)
GRAMMARS = {
    language.name: language
    for language in (
        Language("python", "tree_sitter_python", _PYTHON, ".py .pyi .pyw", has_docstrings=True),
        Language("javascript", "tree_sitter_javascript", _JAVASCRIPT + _JAVASCRIPT_FIELDS, ".js .mjs .cjs .jsx"),
        Language("typescript", "tree_sitter_typescript", _TYPESCRIPT, ".ts .mts .cts", "language_typescript"),
        Language("tsx", "tree_sitter_typescript", _TYPESCRIPT, ".tsx", "language_tsx"),
        Language("rust", "tree_sitter_rust", _RUST, ".rs", separator="::"),
        Language("go", "tree_sitter_go", _GO, ".go"),
        Language("java", "tree_sitter_java", _JAVA, ".java"),
        Language("c", "tree_sitter_c", _C, ".c .h"),
        Language("cpp", "tree_sitter_cpp", _C + _CPP, ".cpp .cc .cxx .hpp .hh .hxx", separator="::"),
        Language("sql", "tree_sitter_sql", _SQL, ".sql"),
    )
}
_BY_SUFFIX = {suffix: language for language in GRAMMARS.values() for suffix in language.suffixes.split()}
SUFFIXES = tuple(_BY_SUFFIX)


def language_of(path: str) -> Language | None:
    """The language of a file, told by its name; None where it is no code that can be read."""
    return _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())
