//! The benchmark's queries, in the dialect and with the tables of the original.

use super::{compiled, plan_at};

pub(super) const TABLES: &str = "
CREATE TABLE datagen (
    event_type INT,
    person ROW<id BIGINT, name VARCHAR, emailAddress VARCHAR, creditCard VARCHAR, city VARCHAR,
        state VARCHAR, dateTime TIMESTAMP(3), extra VARCHAR>,
    auction ROW<id BIGINT, itemName VARCHAR, description VARCHAR, initialBid BIGINT,
        reserve BIGINT, dateTime TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT,
        category BIGINT, extra VARCHAR>,
    bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR,
        dateTime TIMESTAMP(3), extra VARCHAR>,
    dateTime AS CASE WHEN event_type = 0 THEN person.dateTime
        WHEN event_type = 1 THEN auction.dateTime ELSE bid.dateTime END,
    WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark');
CREATE VIEW person AS SELECT person.id, person.name, person.emailAddress, person.creditCard,
    person.city, person.state, dateTime, person.extra FROM datagen WHERE event_type = 0;
CREATE VIEW bid AS SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, dateTime,
    bid.extra FROM datagen WHERE event_type = 2;
";

fn sink(columns: &str) -> String {
    format!("CREATE TABLE s ({columns}) WITH ('connector' = 'blackhole');\n")
}

fn query(columns: &str, query: &str) -> String {
    format!("{TABLES}{}INSERT INTO s {query};", sink(columns))
}

#[test]
fn stateless_queries_compile() {
    for (columns, text) in [
        (
            "auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP(3), extra VARCHAR",
            "SELECT auction, bidder, price, dateTime, extra FROM bid",
        ),
        (
            "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), dateTime TIMESTAMP(3), extra VARCHAR",
            "SELECT auction, bidder, 0.908 * price as price, dateTime, extra FROM bid",
        ),
        (
            "auction BIGINT, price BIGINT",
            "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
        ),
        (
            "auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP(3), extra VARCHAR,
             dt STRING, hm STRING",
            "SELECT auction, bidder, price, dateTime, extra, DATE_FORMAT(dateTime, 'yyyy-MM-dd'),
                DATE_FORMAT(dateTime, 'HH:mm') FROM bid",
        ),
        (
            "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, channel_id VARCHAR",
            "SELECT auction, bidder, price, channel,
                CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
                    WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
                    ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
             FROM bid WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) is not null or
                lower(channel) in ('apple', 'google', 'facebook', 'baidu')",
        ),
        (
            "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, dir1 VARCHAR, dir2 VARCHAR,
             dir3 VARCHAR",
            "SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) as dir1,
                SPLIT_INDEX(url, '/', 4) as dir2, SPLIT_INDEX(url, '/', 5) as dir3 FROM bid",
        ),
    ] {
        compiled(&query(columns, text));
    }
}

#[test]
fn query_14_with_its_function() {
    let columns = "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), bidTimeType VARCHAR,
        dateTime TIMESTAMP(3), extra VARCHAR, c_counts BIGINT";
    let script = format!(
        "CREATE FUNCTION count_char AS 'com.github.nexmark.flink.udf.CountChar';
         {}",
        query(
            columns,
            "SELECT auction, bidder, 0.908 * price as price,
                CASE WHEN HOUR(dateTime) >= 8 AND HOUR(dateTime) <= 18 THEN 'dayTime'
                    WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime'
                    ELSE 'otherTime' END AS bidTimeType,
                dateTime, extra, count_char(extra, 'c') AS c_counts
             FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000"
        )
    );
    compiled(&script);
}

#[test]
fn query_5_counts_per_hop_in_two_phases() {
    let text = plan_at(
        &query(
            "auction BIGINT, num BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)",
            "SELECT auction, count(*) AS num, window_start AS starttime, window_end AS endtime
             FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
             GROUP BY auction, window_start, window_end",
        ),
        4,
    );
    let expected = "\
[6] Sink: s
    writes auction BIGINT, num BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)
  [5] Calc: auction, num, starttime, endtime
      auction
      num = agg0
      starttime = window_start
      endtime = window_end
    [4] Global HOP 10 s every 2 s: COUNT(*) by auction
        HOP 10 s every 2 s over dateTime
        agg0 = COUNT(*)
      hash(auction) ← [3] Local HOP 10 s every 2 s: COUNT(*) by auction
          HOP 10 s every 2 s over dateTime
          agg0 = COUNT(*)
        [2] Calc: auction, dateTime where (event_type = 2)
            where (event_type = 2)
            auction = bid.auction
            dateTime
          [1] Calc: event_type, dateTime, bid.auction
              event_type
              dateTime
              bid.auction
            [0] Source: datagen
                reads event_type INT, person ROW<id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, dateTime TIMESTAMP(3), extra STRING>, auction ROW<id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>, bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP(3), extra STRING>
                dateTime = CASE WHEN (event_type = 0) THEN person.dateTime WHEN (event_type = 1) THEN auction.dateTime ELSE bid.dateTime END
                watermark for dateTime: ADD_INTERVAL[-4000 ms](dateTime), idle after 60000 ms
";
    assert_eq!(text, expected);
}

#[test]
fn query_11_sessions_in_both_syntaxes() {
    let columns = "bidder BIGINT, bid_count BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)";
    let function = plan_at(
        &query(
            columns,
            "SELECT bidder, count(*) as bid_count, window_start AS starttime, window_end AS endtime
             FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
             GROUP BY bidder, window_start, window_end",
        ),
        4,
    );
    let group = plan_at(
        &query(
            columns,
            "SELECT B.bidder, count(*) as bid_count,
                SESSION_START(B.dateTime, INTERVAL '10' SECOND) as starttime,
                SESSION_END(B.dateTime, INTERVAL '10' SECOND) as endtime
             FROM bid B GROUP BY B.bidder, SESSION(B.dateTime, INTERVAL '10' SECOND)",
        ),
        4,
    );
    assert_eq!(function, group);
    assert!(
        function.contains("[3] SESSION 10 s: COUNT(*) by bidder"),
        "{function}"
    );
    assert!(!function.contains("Local"));
}

#[test]
fn query_12_follows_the_clock() {
    let script = format!(
        "{TABLES}CREATE VIEW B AS SELECT *, PROCTIME() as p_time FROM bid;
         {}INSERT INTO s SELECT bidder, count(*) as bid_count, window_start AS starttime,
            window_end AS endtime
         FROM TABLE(TUMBLE(TABLE B, DESCRIPTOR(p_time), INTERVAL '10' SECOND))
         GROUP BY bidder, window_start, window_end;",
        sink("bidder BIGINT, bid_count BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)")
    );
    let text = plan_at(&script, 1);
    assert!(
        text.contains("TUMBLE 10 s over processing time in UTC"),
        "{text}"
    );
}

#[test]
fn queries_15_to_17_update() {
    let ranks = |function: &str| {
        format!(
            "{function}, {function} filter (where price < 10000),
             {function} filter (where price >= 10000 and price < 1000000),
             {function} filter (where price >= 1000000)"
        )
    };
    let counts = format!(
        "{}, {}, {}",
        ranks("count(*)"),
        ranks("count(distinct bidder)"),
        ranks("count(distinct auction)")
    );
    let numbers: Vec<String> = (0..12).map(|i| format!("n{i} BIGINT")).collect();
    let numbers = numbers.join(", ");
    let q15 = query(
        &format!("`day` STRING, {numbers}"),
        &format!(
            "SELECT DATE_FORMAT(dateTime, 'yyyy-MM-dd') as `day`, {counts} FROM bid
             GROUP BY DATE_FORMAT(dateTime, 'yyyy-MM-dd')"
        ),
    );
    let text = plan_at(&q15, 2);
    assert!(text.contains("Global GROUP"), "{text}");
    let q16 = query(
        &format!("channel STRING, `day` STRING, `minute` STRING, {numbers}"),
        &format!(
            "SELECT channel, DATE_FORMAT(dateTime, 'yyyy-MM-dd') as `day`,
                max(DATE_FORMAT(dateTime, 'HH:mm')) as `minute`, {counts} FROM bid
             GROUP BY channel, DATE_FORMAT(dateTime, 'yyyy-MM-dd')"
        ),
    );
    compiled(&q16);
    let q17 = query(
        "auction BIGINT, `day` STRING, total BIGINT, r1 BIGINT, r2 BIGINT, r3 BIGINT,
         mi BIGINT, ma BIGINT, av BIGINT, su BIGINT, PRIMARY KEY (auction, `day`) NOT ENFORCED",
        &format!(
            "SELECT auction, DATE_FORMAT(dateTime, 'yyyy-MM-dd') as `day`, {}, min(price),
                max(price), avg(price), sum(price) FROM bid
             GROUP BY auction, DATE_FORMAT(dateTime, 'yyyy-MM-dd')",
            ranks("count(*)")
        ),
    );
    let text = plan_at(&q17, 1);
    assert!(text.contains("{+I -U +U -D}"), "{text}");
    // The group's keys are the sink's: no further exchange.
    assert_eq!(text.matches("hash(").count(), 1, "{text}");
}
