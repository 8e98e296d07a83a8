/// Keeps what weather stations measure.
#[stoop::interface]
pub trait Weather {
    /// Takes a measurement of a station, and returns how many of that station
    /// there are.
    fn report(&self, station: &str, measurement: &Measurement) -> u32;

    /// The measurements of a station, the newest first, and no more than
    /// `count`.
    #[idempotent]
    fn latest(&self, station: &str, count: u32) -> Vec<Measurement>;

    /// The station whose last measurement is the warmest; `None` if no station
    /// has reported.
    #[idempotent]
    fn warmest(&self) -> Option<Station>;
}

/// A measurement of a station.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Seconds since 1970, UTC.
    pub time: u64,
    /// The temperature in degrees Celsius.
    pub celsius: f64,
}

/// A station and what it has measured.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct Station {
    /// The name that it reports under.
    pub name: String,
    /// Its last report.
    pub last: Measurement,
}
