"""The parser for what is not well-formed: finds the messages that cel-go's parser gives."""
