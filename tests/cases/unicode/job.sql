CREATE TABLE t (
  id INT,
  `näme` STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  `näme` STRING,
  n BIGINT,
  len INT,
  `größte id` INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT `näme`, COUNT(*), CHAR_LENGTH(`näme`), MAX(id) FROM t GROUP BY `näme`;
