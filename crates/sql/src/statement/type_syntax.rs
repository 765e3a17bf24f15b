//! Reads Flink's type names.

use datafusion_expr::sqlparser::{
    parser::{Parser, ParserError},
    tokenizer::{Token, Tokenizer},
};

use super::dialect::{FlinkDialect, take_word, take_words};
use crate::flink_type::FlinkType;

/// Reads a type at the parser's position. `NOT NULL` after it is left to the caller.
pub(crate) fn parse_type(parser: &mut Parser) -> Result<FlinkType, ParserError> {
    let token = parser.next_token();
    let Token::Word(word) = &token.token else {
        return parser.expected("a data type", token);
    };
    let name = word.value.to_ascii_uppercase();
    let mut parsed = match name.as_str() {
        "BOOLEAN" => FlinkType::Boolean,
        "TINYINT" => FlinkType::TinyInt,
        "SMALLINT" => FlinkType::SmallInt,
        "INT" | "INTEGER" => FlinkType::Int,
        "BIGINT" => FlinkType::BigInt,
        "FLOAT" => FlinkType::Float,
        "DOUBLE" => {
            take_word(parser, "PRECISION");
            FlinkType::Double
        }
        "DECIMAL" | "DEC" | "NUMERIC" => parse_decimal(parser)?,
        "CHAR" => FlinkType::Char(parse_length(parser)?.unwrap_or(1)),
        // Flink's default length of VARCHAR is 1 too, but everybody means STRING by it.
        "VARCHAR" => FlinkType::VarChar(parse_length(parser)?),
        "STRING" => FlinkType::VarChar(None),
        "BINARY" => FlinkType::Binary(parse_length(parser)?.unwrap_or(1)),
        "VARBINARY" => FlinkType::VarBinary(parse_length(parser)?),
        "BYTES" => FlinkType::VarBinary(None),
        "DATE" => FlinkType::Date,
        "TIME" => {
            let precision = parse_precision(parser, 0)?;
            take_words(parser, &["WITHOUT", "TIME", "ZONE"]);
            FlinkType::Time(precision)
        }
        "TIMESTAMP" => parse_timestamp(parser)?,
        "TIMESTAMP_LTZ" => FlinkType::TimestampLtz(parse_precision(parser, 6)?),
        "ARRAY" => {
            parser.expect_token(&Token::Lt)?;
            let element = parse_element(parser)?;
            parser.expect_token(&Token::Gt)?;
            FlinkType::Array(Box::new(element))
        }
        "MAP" => {
            parser.expect_token(&Token::Lt)?;
            let key = parse_element(parser)?;
            parser.expect_token(&Token::Comma)?;
            let value = parse_element(parser)?;
            parser.expect_token(&Token::Gt)?;
            FlinkType::Map(Box::new(key), Box::new(value))
        }
        "ROW" => parse_row(parser)?,
        "MULTISET" | "RAW" | "INTERVAL" | "SYMBOL" | "VARIANT" | "BITMAP" | "NULL" => {
            return Err(ParserError::ParserError(format!(
                "the type {name} is not supported yet{}",
                token.span.start
            )));
        }
        _ => return parser.expected("a data type", token),
    };
    while take_word(parser, "ARRAY") {
        parsed = FlinkType::Array(Box::new(parsed));
    }
    Ok(parsed)
}

/// Reads a type from its own text, as [`FlinkType`]'s `Display` writes it.
pub(crate) fn type_from_text(text: &str) -> Result<FlinkType, ParserError> {
    let dialect = FlinkDialect;
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location()?;
    let mut parser =
        Parser::new(&dialect).with_tokens_with_locations(super::script::split_shifts(tokens));
    parse_type(&mut parser)
}

fn parse_element(parser: &mut Parser) -> Result<FlinkType, ParserError> {
    let element = parse_type(parser)?;
    take_nullability(parser);
    Ok(element)
}

/// Takes `NULL` or `NOT NULL`; whether the type stays nullable.
pub(crate) fn take_nullability(parser: &mut Parser) -> bool {
    if take_words(parser, &["NOT", "NULL"]) {
        return false;
    }
    take_word(parser, "NULL");
    true
}

fn parse_row(parser: &mut Parser) -> Result<FlinkType, ParserError> {
    let close = if parser.consume_token(&Token::LParen) {
        Token::RParen
    } else {
        parser.expect_token(&Token::Lt)?;
        Token::Gt
    };
    let fields = parser.parse_comma_separated(|parser| {
        let name = parser.parse_identifier()?.value;
        let field = parse_type(parser)?;
        let nullable = take_nullability(parser);
        if matches!(parser.peek_token_ref().token, Token::SingleQuotedString(_)) {
            parser.advance_token();
        }
        Ok((name, field, nullable))
    })?;
    parser.expect_token(&close)?;
    Ok(FlinkType::Row(fields))
}

fn parse_timestamp(parser: &mut Parser) -> Result<FlinkType, ParserError> {
    let precision = parse_precision(parser, 6)?;
    if take_words(parser, &["WITH", "LOCAL", "TIME", "ZONE"]) {
        return Ok(FlinkType::TimestampLtz(precision));
    }
    if take_words(parser, &["WITH", "TIME", "ZONE"]) {
        return Err(ParserError::ParserError(format!(
            "TIMESTAMP WITH TIME ZONE is not supported yet, use TIMESTAMP_LTZ{}",
            parser.peek_token_ref().span.start
        )));
    }
    take_words(parser, &["WITHOUT", "TIME", "ZONE"]);
    Ok(FlinkType::Timestamp(precision))
}

fn parse_decimal(parser: &mut Parser) -> Result<FlinkType, ParserError> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(FlinkType::Decimal(10, 0));
    }
    let precision = parse_bounded(parser, "a precision from 1 to 38", 1, 38)? as u8;
    let scale = if parser.consume_token(&Token::Comma) {
        let what = "a scale from 0 to the precision";
        parse_bounded(parser, what, 0, u64::from(precision))? as i8
    } else {
        0
    };
    parser.expect_token(&Token::RParen)?;
    Ok(FlinkType::Decimal(precision, scale))
}

fn parse_precision(parser: &mut Parser, default: u8) -> Result<u8, ParserError> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(default);
    }
    let precision = parse_bounded(parser, "a precision from 0 to 9", 0, 9)? as u8;
    parser.expect_token(&Token::RParen)?;
    Ok(precision)
}

fn parse_length(parser: &mut Parser) -> Result<Option<u32>, ParserError> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(None);
    }
    let length = parse_bounded(parser, "a length from 1 to 2147483647", 1, 2_147_483_647)? as u32;
    parser.expect_token(&Token::RParen)?;
    Ok((length != 2_147_483_647).then_some(length))
}

fn parse_bounded(parser: &mut Parser, what: &str, min: u64, max: u64) -> Result<u64, ParserError> {
    let token = parser.next_token();
    match &token.token {
        Token::Number(text, _) => match text.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            _ => parser.expected(what, token),
        },
        _ => parser.expected(what, token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_round_trip_through_text() {
        for (text, canonical) in [
            ("integer", "INT"),
            ("VARCHAR(2147483647)", "STRING"),
            ("VARCHAR(20)", "VARCHAR(20)"),
            ("DEC", "DECIMAL(10, 0)"),
            ("NUMERIC(38,18)", "DECIMAL(38, 18)"),
            ("TIMESTAMP", "TIMESTAMP(6)"),
            ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
            ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(3)"),
            ("ARRAY<ARRAY<INT>>", "ARRAY<ARRAY<INT>>"),
            ("INT ARRAY", "ARRAY<INT>"),
            (
                "MAP<STRING, ROW<a INT NOT NULL, `b c` DATE>>",
                "MAP<STRING, ROW<`a` INT NOT NULL, `b c` DATE>>",
            ),
            ("ROW(a INT 'first', b BYTES)", "ROW<`a` INT, `b` BYTES>"),
            ("DOUBLE PRECISION", "DOUBLE"),
        ] {
            let parsed = type_from_text(text).unwrap();
            assert_eq!(parsed.to_string(), canonical, "{text}");
            assert_eq!(type_from_text(canonical).unwrap(), parsed, "{text}");
        }
        for bad in [
            "DECIMAL(39)",
            "DECIMAL(5, 6)",
            "TIMESTAMP(10)",
            "FOO",
            "ARRAY<INT",
            "VARCHAR(0)",
        ] {
            assert!(type_from_text(bad).is_err(), "{bad}");
        }
    }
}
