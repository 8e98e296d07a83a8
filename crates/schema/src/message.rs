//! The payloads of calls and results, as values.

use crate::decode::Decoder;
use crate::encode::{Encoder, Misfit, len};
use crate::tree::{Mode, Number, Parameter, Shape, Signature, Type};
use crate::value::Value;
use stoop_marshal::{DecodeError, Reader, Writer};

/// What a caller gives for a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A value.
    Value(Value),
    /// Of a slice or buffer that the procedure fills: its length.
    Length(u32),
    /// Nothing: the procedure makes another value that comes back, or it is a pipe to the procedure.
    Nothing,
    /// Of a pipe from the procedure: bytes that it may send at first.
    Window(u64),
}

/// The values in a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The value returned.
    pub returned: Option<Value>,
    /// For each parameter its value, if it comes back.
    pub back: Vec<Option<Value>>,
}

impl Parameter {
    /// The type of the elements of a slice or buffer that comes back, or array that the procedure writes in the result.
    fn elements(&self) -> Option<&Type> {
        match &self.ty {
            Type::Sequence(element) if self.shape != Shape::Whole => Some(element),
            Type::Array(element, _) if self.is_in_place() => Some(element),
            _ => None,
        }
    }

    /// Number of elements that come back of an argument without their number.
    fn elements_back(&self, argument: &Argument) -> Result<usize, Misfit> {
        match (&self.ty, argument) {
            (Type::Array(_, count), _) => usize::try_from(*count).map_err(|_| Misfit),
            (_, Argument::Length(len)) => Ok(*len as usize),
            (_, Argument::Value(value)) => len(value),
            (_, Argument::Nothing | Argument::Window(_)) => Err(Misfit),
        }
    }
}

impl Parameter {
    /// Whether the items of a pipe lie there without a count.
    fn is_bare(&self) -> bool {
        self.shape == Shape::Bare
    }
}

impl Signature {
    /// Writes an item of a pipe of this signature.
    ///
    /// # Errors
    /// It does not fit.
    pub fn put_item(&self, pipe: &Parameter, item: &Value, writer: &mut Writer<'_>) -> Result<(), Misfit> {
        match (item, pipe.ty.element()) {
            (Value::Text(text), None) if pipe.is_bare() => writer.scalars(text.as_bytes()),
            (_, Some(element)) if pipe.is_bare() => Encoder::new(self, writer).elements(element, item)?,
            _ => Encoder::new(self, writer).value(&pipe.ty, item)?,
        }
        Ok(())
    }

    /// Reads an item of a pipe of this signature.
    ///
    /// # Errors
    /// It is none.
    pub fn take_item(&self, pipe: &Parameter, item: &[u8]) -> Result<Value, DecodeError> {
        let mut reader = Reader::new(item);
        let value = match (&pipe.ty, pipe.is_bare()) {
            (Type::Sequence(element), true) => {
                let size = match **element {
                    Type::Number(number) => number.size() as usize,
                    _ => 1,
                };
                if !item.len().is_multiple_of(size) {
                    return Err(DecodeError::Truncated);
                }
                Decoder::new(self, &mut reader).elements(element, item.len() / size)?
            }
            (_, true) => {
                let text = str::from_utf8(item).map_err(|_| DecodeError::BadText)?;
                return Ok(Value::Text(text.to_owned()));
            }
            (ty, false) => Decoder::new(self, &mut reader).value(ty)?,
        };
        reader.finish()?;
        Ok(value)
    }

    /// Writes the payload of a call. An argument is given for each parameter.
    ///
    /// # Errors
    /// They do not fit the signature. (Whether the payload has room for them the writer says.)
    pub fn put_call(&self, arguments: &[Argument], writer: &mut Writer<'_>) -> Result<(), Misfit> {
        if arguments.len() != self.parameters.len() {
            return Err(Misfit);
        }
        let mut encoder = Encoder::new(self, writer);
        for (parameter, argument) in self.parameters.iter().zip(arguments) {
            let is_buffer = parameter.shape == Shape::Buffer;
            if is_buffer {
                // Its contents or its length, and not where it lies.
                encoder.flag(false);
            }
            match (parameter.mode, argument) {
                (Mode::In | Mode::InOut, Argument::Value(value)) => encoder.value(&parameter.ty, value)?,
                (Mode::Out, Argument::Length(len)) if parameter.has_length() => encoder.count(*len as usize),
                (Mode::Out, Argument::Nothing) if !parameter.has_length() => {}
                (Mode::PipeIn, Argument::Nothing) => {}
                (Mode::PipeOut, Argument::Window(bytes)) => {
                    encoder.value(&Type::Number(Number::U64), &Value::Unsigned((*bytes).into()))?;
                }
                _ => return Err(Misfit),
            }
        }
        Ok(())
    }

    /// The payload of a call with these arguments, whose pipe from the procedure, if it has one, has this window at first.
    ///
    /// # Errors
    /// They do not fit the signature, or are too long.
    pub fn call_bytes(&self, arguments: &[Argument], window: u64) -> Result<Vec<u8>, String> {
        let mut arguments = arguments.to_vec();
        if let Some((place, _)) = self.pipe(Mode::PipeOut)
            && let Some(argument) = arguments.get_mut(place)
        {
            *argument = Argument::Window(window);
        }
        bytes(|writer| self.put_call(&arguments, writer))
    }

    /// Reads the payload of a call.
    ///
    /// # Errors
    /// It is none of this procedure. Arguments that lie in shared memory are not read.
    pub fn take_call(&self, reader: &mut Reader<'_>) -> Result<Vec<Argument>, DecodeError> {
        let mut arguments = Vec::with_capacity(self.parameters.len());
        let mut decoder = Decoder::new(self, reader);
        for parameter in &self.parameters {
            if parameter.shape == Shape::Buffer {
                decoder.no_place()?;
            }
            arguments.push(match parameter.mode {
                Mode::In | Mode::InOut => Argument::Value(decoder.value(&parameter.ty)?),
                Mode::Out if parameter.has_length() => Argument::Length(decoder.length()?),
                Mode::Out | Mode::PipeIn => Argument::Nothing,
                Mode::PipeOut => match decoder.value(&Type::Number(Number::U64))? {
                    Value::Unsigned(bytes) => Argument::Window(bytes as u64),
                    _ => unreachable!("it is a u64"),
                },
            });
        }
        reader.finish()?;
        Ok(arguments)
    }

    /// Writes the payload of the result of a call that had these arguments.
    ///
    /// # Errors
    /// The values do not fit the signature, or the lengths those of the arguments.
    pub fn put_result(
        &self,
        arguments: &[Argument],
        outcome: &Outcome,
        writer: &mut Writer<'_>,
    ) -> Result<(), Misfit> {
        let mut encoder = Encoder::new(self, writer);
        for place in self.coming_back() {
            let parameter = &self.parameters[place];
            let value = outcome.back.get(place).and_then(Option::as_ref).ok_or(Misfit)?;
            match parameter.elements() {
                Some(element) => {
                    if len(value)? != parameter.elements_back(arguments.get(place).ok_or(Misfit)?)? {
                        return Err(Misfit);
                    }
                    encoder.elements(element, value)?;
                }
                None => encoder.value(&parameter.ty, value)?,
            }
        }
        match (&self.returns, &outcome.returned) {
            (Some(ty), Some(value)) => encoder.value(ty, value),
            (None, None) => Ok(()),
            _ => Err(Misfit),
        }
    }

    /// Reads the payload of the result of a call that had these arguments.
    ///
    /// # Errors
    /// It is none of such a call.
    pub fn take_result(
        &self,
        arguments: &[Argument],
        reader: &mut Reader<'_>,
    ) -> Result<Outcome, DecodeError> {
        let mut back = vec![None; self.parameters.len()];
        let mut decoder = Decoder::new(self, reader);
        for place in self.coming_back() {
            let parameter = &self.parameters[place];
            let value = match parameter.elements() {
                Some(element) => {
                    let count = arguments.get(place).map(|argument| parameter.elements_back(argument));
                    let count = count.and_then(Result::ok).ok_or(DecodeError::Truncated)?;
                    decoder.elements(element, count)?
                }
                None => decoder.value(&parameter.ty)?,
            };
            back[place] = Some(value);
        }
        let returned = self.returns.as_ref().map(|ty| decoder.value(ty)).transpose()?;
        reader.finish()?;
        Ok(Outcome { returned, back })
    }
}

/// The bytes that `put` writes.
pub(crate) fn bytes(put: impl FnOnce(&mut Writer<'_>) -> Result<(), Misfit>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, 0, u32::MAX as usize);
    put(&mut writer).map_err(|why| why.to_string())?;
    let len = writer.finish().map_err(|why| why.to_string())?;
    bytes.truncate(len);
    Ok(bytes)
}
