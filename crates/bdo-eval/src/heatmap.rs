//! A matrix as a picture.

use base64::Engine;

/// Blue through white to red, anchored at five colours that stay apart for colour-blind eyes.
const COLOURS: [[f32; 3]; 5] =
    [[33.0, 102.0, 172.0], [146.0, 197.0, 222.0], [247.0, 247.0, 247.0], [244.0, 165.0, 130.0], [178.0, 24.0, 43.0]];
/// Grey for what is not a number.
const MISSING: [u8; 3] = [160, 160, 160];

/// Draws a row-major matrix as a PNG, every value a square of `pixels` sides, `limit` the value of full colour.
pub fn png(values: &[f32], columns: usize, limit: f32, pixels: usize) -> Vec<u8> {
    let rows = values.len().checked_div(columns).unwrap_or(0);
    let (width, height) = (columns * pixels, rows * pixels);
    let mut data = Vec::with_capacity(width * height * 3);
    for row in values.chunks_exact(columns.max(1)) {
        let line: Vec<u8> = row.iter().flat_map(|x| colour(*x, limit).repeat(pixels)).collect();
        (0..pixels).for_each(|_| data.extend_from_slice(&line));
    }
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().expect("a picture in memory has room for its header");
    writer.write_image_data(&data).expect("the data has the size the header says");
    writer.finish().expect("a picture in memory has room for its end");
    out
}

/// The picture as an address that needs no file.
pub fn data_uri(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(png))
}

fn colour(value: f32, limit: f32) -> [u8; 3] {
    if !value.is_finite() {
        return MISSING;
    }
    let position = ((value / limit).clamp(-1.0, 1.0) + 1.0) * 2.0;
    let low = (position as usize).min(3);
    let share = position - low as f32;
    std::array::from_fn(|c| (COLOURS[low][c] + (COLOURS[low + 1][c] - COLOURS[low][c]) * share).round() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_run_from_blue_through_white_to_red() {
        assert_eq!(colour(-9.0, 1.0), [33, 102, 172]);
        assert_eq!(colour(0.0, 1.0), [247, 247, 247]);
        assert_eq!(colour(9.0, 1.0), [178, 24, 43]);
        assert_eq!(colour(f32::NAN, 1.0), MISSING);
    }

    #[test]
    fn the_picture_has_the_size_of_the_matrix() {
        let bytes = png(&[0.0; 6], 3, 1.0, 2);
        let reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a valid picture");
        assert_eq!((reader.info().width, reader.info().height), (6, 4));
    }
}
