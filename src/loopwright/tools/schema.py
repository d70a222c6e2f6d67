"""What a tool's arguments must be: the JSON schema that the model sees, and the check of what it sends.

Three ways to say it, one interface (`Arguments`):

- the function's signature and docstring: plain types by hand (`simple.py`), everything else through a pydantic model;
- `args_schema=` a pydantic model class;
- `args_schema=` a JSON schema dictionary: a request to the model, of which only `required` is checked.

pydantic is imported when the first schema is built. The JSON schema has no titles and no references that could be
written out. Injected parameters are in neither the schema nor the check, except where a user's own model declares them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Optional, cast

from loopwright.errors import ToolDefinitionError, UsageError
from loopwright.schema import checked, json_schema, json_text, readable
from loopwright.tools.parameters import Parameter, Signature
from loopwright.tools.runtime import Injection, injection_of
from loopwright.tools.simple import described, fields_of, properties, validator

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Arguments", "MissingArgumentError", "arguments_of"]

_Json = dict[str, Any]


class MissingArgumentError(ValueError):
    """An argument that a JSON schema requires was not sent."""


class Arguments(ABC):
    """The arguments of one tool."""

    names: tuple[str, ...]
    """What the model may send, in order."""
    injected: dict[str, tuple[Injection, Any]]
    """What the program fills: how, and the default (`...` without one)."""
    open_ended: bool = False
    """Whether the tool takes names beside `names`."""
    merges: bool = False
    """Whether injected values are checked together with the model's, as a user's own model asks for."""

    @abstractmethod
    def json(self) -> _Json:
        """The JSON schema. A new dictionary each time. Raises `ToolDefinitionError` for a type that has none."""

    @abstractmethod
    def check(self) -> Callable[[Any], dict[str, Any]]:
        """A function from the model's arguments to keyword arguments; it raises pydantic's `ValidationError`."""

    @abstractmethod
    def model(self) -> type[BaseModel] | _Json:
        """The visible arguments as a pydantic model class, or the JSON schema they were given as."""


def arguments_of(
    name: str, signature: Signature, args_schema: Any, descriptions: dict[str, str], where: str
) -> Arguments:
    """The arguments of a tool. Raises `ToolDefinitionError` if `args_schema` and the function do not fit."""
    if args_schema is None:
        return _FromSignature(name, signature, descriptions, where)
    if isinstance(args_schema, Mapping):
        return _FromJson(cast("Mapping[str, Any]", args_schema), signature, where)
    if isinstance(args_schema, type) and hasattr(args_schema, "model_json_schema"):
        return _FromModel(name, cast("type[BaseModel]", args_schema), signature, where)
    raise ToolDefinitionError(
        f"{where}: args_schema must be a pydantic model class or a JSON schema dictionary, not {args_schema!r}. "
        "Dataclasses and TypedDicts can be types of parameters."
    )


# -- from a signature -----------------------------------------------------------------------------------------------


class _FromSignature(Arguments):
    def __init__(self, name: str, signature: Signature, descriptions: dict[str, str], where: str) -> None:
        self._name, self._signature, self._where = name, signature, where
        self._descriptions = descriptions
        self._visible = [parameter for parameter in signature.parameters if parameter.injection is None]
        self.names = tuple(parameter.name for parameter in self._visible)
        self.injected = _injected(signature.parameters)
        self._fields = fields_of(self._visible, descriptions)
        self._model: type[BaseModel] | None = None
        if self._fields is not None:
            signature.release()

    def json(self) -> _Json:
        if self._fields is not None:
            return properties(self._fields)
        schema = _ordered(json_schema(_quiet_schema(self.model(), self._visible, self._where)))
        schema.pop("description", None)  # the tool's own, which is told beside the parameters
        return schema

    def check(self) -> Callable[[Any], dict[str, Any]]:
        if self._fields is not None:
            return validator(self._name, self._fields)
        model = self.model()
        compiled, attributes = model.__pydantic_validator__, _attributes(self._visible)

        def check(args: Any) -> dict[str, Any]:
            values = cast("dict[str, Any]", vars(checked(compiled, args)))
            return {name: values[attribute] for name, attribute in attributes}

        return check

    def model(self) -> type[BaseModel]:
        if self._model is None:
            self._model = _create(self._name, self._visible, self._descriptions, self._signature, self._where)
        return self._model


def _injected(parameters: Sequence[Parameter]) -> dict[str, tuple[Injection, Any]]:
    return {
        parameter.name: (parameter.injection, parameter.default)
        for parameter in parameters
        if parameter.injection is not None
    }


def _attributes(parameters: Sequence[Parameter]) -> list[tuple[str, str]]:
    """The parameter's name and the field's. They differ where pydantic gives a name a meaning of its own."""
    from pydantic import BaseModel

    return [
        (name, f"argument_{position}" if name.startswith("_") or hasattr(BaseModel, name) else name)
        for position, (name, *_) in enumerate(parameters)
    ]


def _create(
    name: str, parameters: Sequence[Parameter], descriptions: dict[str, str], signature: Signature, where: str
) -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model
    from pydantic.errors import PydanticUserError
    from pydantic.fields import FieldInfo

    fields: dict[str, Any] = {}
    for parameter, (_, attribute) in zip(parameters, _attributes(parameters), strict=True):
        annotation, default = parameter.annotation, parameter.default
        kind, words = described(annotation)
        if default is None and kind is not Any:
            annotation = Optional[kind]  # noqa: UP045 - the type may be any object
        words = words or (None if _says(annotation) else descriptions.get(parameter.name))
        try:
            annotation = readable(annotation, {})
        except NameError as error:
            raise ToolDefinitionError(f"{where}: parameter {parameter.name!r}: {error}") from None
        info: Any = default if isinstance(default, FieldInfo) else Field(default)
        if words and info.description is None:
            annotation = Annotated[annotation, Field(description=words)]
        if attribute != parameter.name:
            annotation = Annotated[annotation, Field(alias=parameter.name)]
        fields[attribute] = (annotation, info)
    try:
        model = create_model(name, __config__=ConfigDict(protected_namespaces=()), **fields)
        _complete(model, signature, where)
    except PydanticUserError as error:
        raise _blame(parameters, error, where) from error
    signature.release()
    return model


def _says(annotation: Any) -> bool:
    """Whether a description is among the marks of `Annotated`."""
    return any(getattr(mark, "description", None) for mark in getattr(annotation, "__metadata__", ()))


def _complete(model: type[BaseModel], signature: Signature, where: str) -> None:
    """Look up classes that were defined after the ones that name them."""
    if model.__pydantic_complete__:
        return
    from pydantic.errors import PydanticUndefinedAnnotation

    try:
        model.model_rebuild(_types_namespace=signature.namespace())
    except PydanticUndefinedAnnotation as error:
        raise ToolDefinitionError(
            f"{where}: its arguments use the name {error.name!r}, which is not defined. Define it before the tool is "
            "used, at the top of the module if the tool is made elsewhere."
        ) from None


def _blame(parameters: Sequence[Parameter], error: Exception, where: str) -> ToolDefinitionError:
    """The error for a type that pydantic or JSON has no schema for, with the parameter that has it."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    for parameter in parameters:
        try:
            TypeAdapter(parameter.annotation).json_schema()
        except PydanticUserError:
            shown = getattr(parameter.annotation, "__name__", None) or repr(parameter.annotation)
            return ToolDefinitionError(
                f"{where}: parameter {parameter.name!r} is of type {shown}, which a model cannot give. Use a type that "
                "has a JSON form (str, a pydantic model, a dataclass, ...), or let the program fill it: "
                f"`{parameter.name}: Annotated[{shown}, InjectedToolArg]`, `runtime: ToolRuntime`."
            )
    return ToolDefinitionError(f"{where}: no schema can be made of its parameters: {error}")


def _quiet_schema(model: type[BaseModel], parameters: Sequence[Parameter], where: str) -> _Json:
    """pydantic's JSON schema; a default that has no JSON form is left out without a warning."""
    from pydantic.errors import PydanticUserError

    try:
        return model.model_json_schema(schema_generator=_quiet_generator())
    except PydanticUserError as error:
        raise _blame(parameters, error, where) from error


_generators: Final[list[Any]] = []


def _quiet_generator() -> Any:
    if not _generators:
        from pydantic.json_schema import GenerateJsonSchema

        quiet: Any = {"ignored_warning_kinds": {"skipped-choice", "non-serializable-default"}}
        _generators.append(type("QuietJsonSchema", (GenerateJsonSchema,), quiet))
    return _generators[0]


def _ordered(schema: _Json) -> _Json:
    """The same with the keys in one order, whoever made it; `properties` even if there are none."""
    first: _Json = {"type": "object", "properties": schema.get("properties", {})}
    if schema.get("required"):
        first["required"] = schema["required"]
    return {**first, **{key: value for key, value in schema.items() if key not in ("properties", "required", "type")}}


# -- from a pydantic model ------------------------------------------------------------------------------------------


class _FromModel(Arguments):
    def __init__(self, name: str, model: type[BaseModel], signature: Signature, where: str) -> None:
        self._name, self._model, self._signature, self._where = name, model, signature, where
        _complete(model, signature, where)
        signature.release()
        marked = {
            field: (found, ... if info.is_required() else info.get_default(call_default_factory=True))
            for field, info in model.model_fields.items()
            if (found := _field_injection(info)) is not None
        }
        self.injected = {**_injected(signature.parameters), **marked}
        self._hidden = [field for field in model.model_fields if field in self.injected]
        self.merges = bool(self._hidden)
        self.open_ended = signature.open_ended and model.model_config.get("extra") == "allow"
        self.names = tuple(
            info.alias or field for field, info in model.model_fields.items() if field not in self.injected
        )
        _must_fit(where, signature, list(model.model_fields), self.injected)

    def json(self) -> _Json:
        return _ordered(json_schema(_quiet_schema(self.model(), (), self._where)))

    def check(self) -> Callable[[Any], dict[str, Any]]:
        validator = self._model.__pydantic_validator__
        validate = self._merged(validator) if self.merges else partial(checked, validator)
        fields, open_ended = tuple(self._model.model_fields), self.open_ended

        def check(args: Any) -> dict[str, Any]:
            instance = validate(args)
            values = {field: getattr(instance, field) for field in fields}
            if open_ended:
                values.update(instance.__pydantic_extra__)
            return values

        return check

    def _merged(self, validator: Any) -> Callable[[Any], Any]:
        """As `checked`, where the values of the program, which JSON does not have, stand among those of the model."""
        from pydantic import ValidationError

        def validate(args: dict[str, Any]) -> Any:
            try:
                return validator.validate_python(args)
            except ValidationError:
                sent = {name: value for name, value in args.items() if name not in self._hidden}
                text = json_text(sent)
                if text is None:
                    raise
            shown = self._shown(self._model.model_config)
            read = shown.model_validate_json(text)
            values = {info.alias or field: getattr(read, field) for field, info in shown.model_fields.items()}
            return validator.validate_python({**args, **{name: values[name] for name in sent if name in values}})

        return validate

    def model(self) -> type[BaseModel]:
        return self._shown(None) if self._hidden else self._model

    def _shown(self, config: Any) -> type[BaseModel]:
        """A model of what the model may send."""
        from pydantic import create_model

        shown: dict[str, Any] = {
            field: (info.annotation, info)
            for field, info in self._model.model_fields.items()
            if field not in self._hidden
        }
        return create_model(self._model.__name__, __config__=config, **shown)


def _field_injection(info: Any) -> Injection | None:
    """pydantic takes `Annotated` apart: the marks are in the field's metadata."""
    for mark in info.metadata:
        found = injection_of(Annotated[Any, mark])
        if found is not None:
            return found
    return injection_of(info.annotation)


def _must_fit(where: str, signature: Signature, fields: Sequence[str], injected: Mapping[str, Any]) -> None:
    """What the schema lets the model send, the function must take, and the other way round."""
    if signature.open_ended:
        return
    accepted = signature.names
    for field in fields:
        if field not in accepted:
            raise ToolDefinitionError(
                f"{where}: args_schema has {field!r} and the function has no such parameter. "
                f"Add it to the function, which takes {', '.join(accepted) or 'nothing'}."
            )
    for parameter in signature.parameters:
        if parameter.required and parameter.name not in fields and parameter.name not in injected:
            raise ToolDefinitionError(
                f"{where}: the function needs {parameter.name!r} and args_schema does not have it. "
                "Add it to args_schema, or give the parameter a default."
            )


# -- from a JSON schema ---------------------------------------------------------------------------------------------


class _FromJson(Arguments):
    def __init__(self, schema: Mapping[str, Any], signature: Signature, where: str) -> None:
        try:
            self._schema = _ordered(json_schema(schema))
        except UsageError as error:
            raise ToolDefinitionError(f"{where}: args_schema: {error}") from None
        self._signature = signature
        signature.release()
        self.injected = _injected(signature.parameters)
        for hidden in self.injected:
            self._schema["properties"].pop(hidden, None)
        self.names = tuple(self._schema["properties"])
        more = "patternProperties" in self._schema or self._schema.get("additionalProperties", not self.names)
        self.open_ended = signature.open_ended and more is not False
        _must_fit(where, signature, self.names, self.injected)

    def json(self) -> _Json:
        return dict(self._schema)

    def check(self) -> Callable[[Any], dict[str, Any]]:
        required = tuple(self._schema.get("required", ()))
        known = None if self._signature.open_ended else frozenset(self.names)

        def check(args: Any) -> dict[str, Any]:
            missing = [name for name in required if name not in args]
            if missing:
                raise MissingArgumentError("\n".join(f"- {name}: Field required" for name in missing))
            return dict(args) if known is None else {name: value for name, value in args.items() if name in known}

        return check

    def model(self) -> _Json:
        return dict(self._schema)
